/*
 * pgobjstore.c
 *		Entry of the library: configuration parameters, shared memory, launcher, hooks.
 *
 * Loaded by shared_preload_libraries for the whole thing; loaded into a single session (CREATE EXTENSION and
 * function calls without the preload) it only declares its parameters, and the functions say what is missing.
 * Under pg_upgrade nothing is started.
 */
#include "postgres.h"

#include "fmgr.h"
#include "guc.h"
#include "job/launcher.h"
#include "job/shmem.h"
#include "miscadmin.h"

PG_MODULE_MAGIC;

void _PG_init(void);

void
_PG_init(void)
{
	pgos_guc_init();
	if (!process_shared_preload_libraries_in_progress || IsBinaryUpgrade)
		return;
	pgos_shmem_init();
	pgos_launcher_register();
	pgos_utility_init();
}
