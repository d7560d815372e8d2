"""What a recipe of a model states: parties, adversaries, claim; one module per model, ``registry`` names them."""
