/*
 * launcher.h
 *		The launcher and the workers: entry points and registration.
 */
#ifndef PGOS_LAUNCHER_H
#define PGOS_LAUNCHER_H

#include "postgres.h"

/* Registers the launcher with the postmaster; called by _PG_init. */
extern void pgos_launcher_register(void);

/* Looked up by name when the postmaster starts the process. */
extern PGDLLEXPORT void pgos_launcher_main(Datum arg);
extern PGDLLEXPORT void pgos_worker_main(Datum arg);

/* Installs the hook that makes workers leave a database that is dropped, renamed, moved or copied. */
extern void pgos_utility_init(void);

#endif
