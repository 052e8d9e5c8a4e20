/*
 * guc.c
 *		The configuration parameters pgobjstore.*.
 *
 * Runs in every process that loads the library.  Limits of the engine (workers, queue) are fixed by the
 * configuration file; limits of a transfer are defaults that any role may set for itself (ALTER ROLE ... SET
 * reaches its workers).
 */
#include "postgres.h"

#include <limits.h>

#include "guc.h"
#include "miscadmin.h"
#include "utils/guc.h"

char *pgos_default_server = NULL;
int	  pgos_max_workers = 4;
int	  pgos_queue_size = 1024;
int	  pgos_idle_timeout = 10 * 1000;
int	  pgos_max_attempts = 3;
int	  pgos_parallel = 2;
int	  pgos_part_size_kb = 8 * 1024;
int	  pgos_concurrency = 8;
int	  pgos_frame_size_kb = 4 * 1024;
int	  pgos_compression_level = 1;
int	  pgos_fast_path = PGOS_FAST_PATH_AUTO;
int	  pgos_connect_timeout = 10 * 1000;
int	  pgos_request_timeout = 60 * 1000;
int	  pgos_max_retries = 12;
int	  pgos_retry_timeout = 120 * 1000;

static const struct config_enum_entry pgos_fast_path_options[] = {
	{"auto", PGOS_FAST_PATH_AUTO, false},
	{"off", PGOS_FAST_PATH_OFF, false},
	{NULL, 0, false},
};

void
pgos_guc_init(void)
{
	DefineCustomStringVariable(
		"pgobjstore.default_server", "Foreign server that is used when a call names none.", NULL,
		&pgos_default_server, "objstore_local", PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("pgobjstore.max_workers",
							"Workers that run jobs at the same time, in the whole cluster.",
							"They count against max_worker_processes.", &pgos_max_workers, 4, 1,
							256, PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("pgobjstore.idle_timeout",
							"Time that a worker waits for the next job of its database and role.",
							NULL, &pgos_idle_timeout, 10 * 1000, 0, INT_MAX, PGC_SIGHUP,
							GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomIntVariable("pgobjstore.max_attempts",
							"Times that an interrupted job is begun before it fails.", NULL,
							&pgos_max_attempts, 3, 1, 100, PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("pgobjstore.parallel",
							"Workers that push one table together, if it is large enough.", NULL,
							&pgos_parallel, 2, 1, 64, PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("pgobjstore.part_size",
							"Size of the first parts of an upload and of the ranges of a download.",
							"A stream holds at most this times pgobjstore.concurrency, plus one.",
							&pgos_part_size_kb, 8 * 1024, 5 * 1024, 1024 * 1024, PGC_USERSET,
							GUC_UNIT_KB, NULL, NULL, NULL);
	DefineCustomIntVariable("pgobjstore.concurrency", "Requests in flight for one stream.", NULL,
							&pgos_concurrency, 8, 1, 64, PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomIntVariable(
		"pgobjstore.frame_size", "Raw bytes after which a zstd frame ends at the next row.", NULL,
		&pgos_frame_size_kb, 4 * 1024, 64, 1024 * 1024, PGC_USERSET, GUC_UNIT_KB, NULL, NULL, NULL);
	DefineCustomIntVariable("pgobjstore.compression_level", "Compression level of zstd.", NULL,
							&pgos_compression_level, 1, -7, 19, PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomEnumVariable("pgobjstore.fast_path",
							 "Encode and decode rows directly instead of by COPY, where possible.",
							 "The bytes are the same either way.", &pgos_fast_path,
							 PGOS_FAST_PATH_AUTO, pgos_fast_path_options, PGC_USERSET, 0, NULL,
							 NULL, NULL);
	DefineCustomIntVariable("pgobjstore.connect_timeout",
							"Time in which a connection to a store must be made.", NULL,
							&pgos_connect_timeout, 10 * 1000, 100, 3600 * 1000, PGC_USERSET,
							GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomIntVariable("pgobjstore.request_timeout",
							"Time after which a request without progress is given up.", NULL,
							&pgos_request_timeout, 60 * 1000, 1000, 3600 * 1000, PGC_USERSET,
							GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomIntVariable("pgobjstore.max_retries", "Attempts of one request to a store.", NULL,
							&pgos_max_retries, 12, 1, 100, PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("pgobjstore.retry_timeout", "Time for all attempts of one request.",
							NULL, &pgos_retry_timeout, 120 * 1000, 0, 24 * 3600 * 1000, PGC_USERSET,
							GUC_UNIT_MS, NULL, NULL, NULL);

	/* Sizes of shared memory can be set only while it is being laid out. */
	if (process_shared_preload_libraries_in_progress)
		DefineCustomIntVariable(
			"pgobjstore.queue_size",
			"Pairs of database and role with waiting jobs that shared memory holds.",
			"More than these wait in their tables until there is room.", &pgos_queue_size, 1024, 1,
			65536, PGC_POSTMASTER, 0, NULL, NULL, NULL);

	MarkGUCPrefixReserved("pgobjstore");
}
