# Thin aliases of `python -m tools.local COMMAND`, for those who have make.
PYTHON ?= python3
# Only `make up HOST=func` or WORKER=grpc counts, never what the shell happens to export.
ifeq ($(origin HOST),command line)
HOST_OPTION = --host=$(HOST)
endif
ifeq ($(origin WORKER),command line)
WORKER_OPTION = --worker=$(WORKER)
endif

.PHONY: demo up test check bench faults fuzz others browser docs deploy prove lock release upgrade vendor setup verify-clone clean
demo up test:
	@$(PYTHON) -m tools.local $@ $(HOST_OPTION) $(WORKER_OPTION) $(ARGS)
upgrade:
	@$(PYTHON) -m tools.local $@ "$(TO)" $(ARGS)
check bench faults fuzz others browser docs deploy prove lock release vendor setup verify-clone clean:
	@$(PYTHON) -m tools.local $@ $(ARGS)
