# Aliases only: `python3 dev.py --help` explains them. More words: make test ARGS="-k fairness"
demo test check bench chaos docs: ; @python3 dev.py $@ $(ARGS)
.PHONY: demo test check bench chaos docs
