"""Reading the transparency log: what every party that follows it verifies, joins and keeps.

A reader fetches a checkpoint, checks its signatures, checks that the tree extends the one it accepted last, fetches
entries, checks that they are in the tree and signed by whoever may sign them, and only then acts on them. There are two
ways to read. Devices, aggregators and collectors read the **live** entries in pages (``view`` accepts or refuses,
``paged`` fetches); those who need the whole history read **all** entries (``whole``). ``signers`` says with which key
each leaf must be signed, and ``live`` what the leaves mean together: which recipes are open, void or shared, and what
they charge.

A party says only which way it reads and where it keeps what it has seen: in memory (``contents``), in a database
(``stored``), or in a folder (``folder``).
"""
