"""Both aggregators' work on one report after another, as the drafts read: what the stages over jobs must come to."""
