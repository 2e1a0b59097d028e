"""Turn contexts into the Parquet files that verl trains on."""

from cobalt.contexts.parquet import main_multi_turn
from cobalt.flags import run_main

if __name__ == "__main__":
    run_main(main_multi_turn)
