# SPDX-License-Identifier: Apache-2.0
# The short front door; the build itself is Meson's (see CONTRIBUTING.md).

PREFIX ?= /usr/local
BUILD := build-release
FUZZ := build-check/fuzz
WHEEL := build-wheel
DOCS := build-docs
SECONDS := 60
OPTIONS := --buildtype=release -Dtests=false -Dprefix='$(PREFIX)' -Dlibdir=lib

.PHONY: help demo check check-all fuzz build install wheel docs format coverage clean

help:
	@echo 'make demo      set up what is missing, build, and train twice with three slow workers: waiting for them, and not'
	@echo 'make check     set up what is missing, and run every test once'
	@echo 'make check-all run them in every configuration: both compilers, under sanitizers and without, threads; the format'
	@echo 'make fuzz      set up what is missing, and run every fuzzer for a minute (SECONDS=N: N seconds)'
	@echo 'make build     build the library and the tool in $(BUILD)/'
	@echo 'make install   install both under PREFIX ($(PREFIX)); DESTDIR is heeded'
	@echo 'make wheel     build the wheel of the Python package in $(WHEEL)/dist/, and try it in an empty virtual environment'
	@echo 'make docs      build the documentation site in $(DOCS)/site/'
	@echo 'make format    lay out the C sources by .clang-format'
	@echo 'make coverage  run the tests and print the line coverage of src/'
	@echo 'make clean     remove what these targets built'

demo:
	@tools/setup.sh demo
	@$(MAKE) --no-print-directory build
	@python3 bench/demo.py $(BUILD) --picture $(BUILD)/demo.svg

check:
	@tools/setup.sh check
	@python3 tests/check.py

check-all:
	@tools/setup.sh check
	@python3 tests/check.py all

fuzz:
	@tools/setup.sh check
	@[ -e $(FUZZ)/build.ninja ] || CC=clang meson setup $(FUZZ) -Dfuzz=true -Dtests=false -Dbuildtype=debugoptimized \
	    -Db_sanitize=address,undefined -Db_lundef=false >/dev/null
	@ninja --quiet -C $(FUZZ)
	@python3 tests/fuzz.py $(FUZZ) --seconds $(SECONDS)

# An old build directory is taken on where it fits, and made anew where it does not.
build:
	@[ -e $(BUILD)/build.ninja ] && meson setup --reconfigure $(BUILD) $(OPTIONS) >/dev/null 2>&1 || \
	    { rm -rf $(BUILD) && meson setup $(BUILD) $(OPTIONS); }
	@ninja -C $(BUILD)

install: build
	meson install -C $(BUILD) --no-rebuild $(if $(DESTDIR),--destdir '$(DESTDIR)')

# What 'wheel' and 'docs' need besides comes from the package index, into virtual environments in their folders.
wheel:
	@tools/setup.sh wheel
	@python3 tools/wheel.py $(WHEEL)
	@python3 tests/wheel.py $(WHEEL)

docs:
	@tools/setup.sh docs
	@python3 tools/site/build.py $(DOCS)

format:
	find bench examples fuzz include src tests -name '*.[ch]' -exec clang-format -i {} +

coverage:
	@tools/setup.sh check
	@python3 tests/check.py coverage

clean:
	rm -rf $(BUILD) $(WHEEL) $(DOCS) build-check
