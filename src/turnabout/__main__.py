"""`python -m turnabout`: the same as the command `turnabout`."""

from turnabout.cli import main

main(prog_name="turnabout")
