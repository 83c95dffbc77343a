# Thin aliases of `python -m local COMMAND`, for those who have make.
PYTHON ?= python3
# Only `make up HOST=func` counts, never a HOST that the shell happens to export.
ifeq ($(origin HOST),command line)
HOST_OPTION = --host=$(HOST)
endif

.PHONY: demo up test check bench faults fuzz docs lock setup verify-clone clean
demo up test:
	@$(PYTHON) -m local $@ $(HOST_OPTION) $(ARGS)
check bench faults fuzz docs lock setup verify-clone clean:
	@$(PYTHON) -m local $@ $(ARGS)
