/*
 * guc.h
 *		The configuration parameters pgobjstore.*; documented in docs/REFERENCE.md.
 */
#ifndef PGOS_GUC_H
#define PGOS_GUC_H

#include "postgres.h"

/* Whether rows are encoded and decoded directly where that can be done, or by COPY always. */
typedef enum PgosFastPath
{
	PGOS_FAST_PATH_AUTO,
	PGOS_FAST_PATH_OFF
} PgosFastPath;

extern char *pgos_default_server; /* name of the server a call without server => uses */
extern int	 pgos_max_workers;	  /* workers of the cluster at a time */
extern int pgos_queue_size; /* (database, role) pairs with waiting jobs that shared memory holds */
extern int pgos_idle_timeout;	   /* ms a worker waits for the next job of its database and role */
extern int pgos_max_attempts;	   /* times a job is begun before it fails for good */
extern int pgos_parallel;		   /* workers of one push, if the table is large enough */
extern int pgos_part_size_kb;	   /* kB of the first parts of an upload, and of a ranged GET */
extern int pgos_concurrency;	   /* requests in flight for one stream */
extern int pgos_frame_size_kb;	   /* kB of raw rows in one zstd frame */
extern int pgos_compression_level; /* zstd */
extern int pgos_fast_path;		   /* PgosFastPath */
extern int pgos_connect_timeout;   /* ms */
extern int pgos_request_timeout;   /* ms without progress */
extern int pgos_max_retries;	   /* attempts of one request */
extern int pgos_retry_timeout;	   /* ms for all attempts of one request */

/* Declares them; called once by _PG_init. */
extern void pgos_guc_init(void);

#endif
