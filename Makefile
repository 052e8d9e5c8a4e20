# pgobjstore: PostgreSQL extension, built with PGXS.
#
#   make                build            make check-unit    unit tests of src/core
#   make install        install          make installcheck  pg_regress on a running, preloaded server
#   make check          everything       make lint / format
#   make bench          benchmark beside a shell pipeline
EXTENSION = pgobjstore
MODULE_big = pgobjstore
DATA = $(wildcard sql/pgobjstore--*.sql)
SOURCES = $(sort $(wildcard src/*.c src/*/*.c))
ALL_HEADERS = $(wildcard src/*.h src/*/*.h)
OBJS = $(SOURCES:.c=.o)
PGFILEDESC = "pgobjstore - export and import through object stores"

PG_CPPFLAGS = -I$(CURDIR)/src $(shell xml2-config --cflags)
PG_CFLAGS = -Werror -Wall -Wextra -Wno-unused-parameter -Wno-sign-compare -Wno-missing-field-initializers
SHLIB_LINK = -Wl,--version-script=$(CURDIR)/src/exports.map -lcurl -lzstd -lz -llz4 -lxml2 -lpthread

REGRESS = $(patsubst test/sql/%.sql,%,$(sort $(wildcard test/sql/*.sql)))
REGRESS_OPTS = --inputdir=test

EXTRA_CLEAN = src/*.gcda src/*/*.gcda

PG_CONFIG ?= pg_config
# Inlining by the JIT has no use for code that runs once per job.
override with_llvm = no
# PGXS has a target "check" of its own, which only says that it is not supported.
ifeq (,$(filter check,$(MAKECMDGOALS)))
PGXS := $(shell $(PG_CONFIG) --pgxs)
include $(PGXS)
override with_llvm = no
$(OBJS): $(ALL_HEADERS)
else
# All of the tests, servers included; as root, because it installs what it needs.
check:
	test/check
endif

.PHONY: check-unit check lint format bench check-identity

check-unit:
	$(MAKE) -C test/unit check

lint:
	test/lint

format:
	clang-format-14 -i $(filter-out %_vectors.h,$(wildcard src/*.[ch] src/*/*.[ch] test/*/*.[ch] test/*/*/*.[ch]))

# SCALE=1 PAIRS=5 SCENARIOS="GROUP SCENARIO ..."; test/bench/run says more.
bench:
	PAIRS="$(PAIRS)" test/bench/run $(SCALE) $(SCENARIOS)

# Random tables until SECONDS have passed (default: an hour): the direct encoder writes the bytes of COPY, the decoder
# reads its rows.
check-identity:
	test/identity $(SECONDS)
