"""Methods, one file each: the functions that the recipe of the same name in ``verl/config/recipe`` names."""
