/*
 * role_settings.h
 *		Whether ALTER ROLE or ALTER DATABASE ... SET has changed what this worker's session began with.
 *
 * A session takes these settings once, when it begins, and keeps them.  For a worker that stays for later jobs
 * this would mean that such a command is followed by some jobs and not by others, as luck has it.
 *
 * Runs in a worker, in a transaction; raises.
 */
#ifndef PGOS_ROLE_SETTINGS_H
#define PGOS_ROLE_SETTINGS_H

#include "postgres.h"

/* False at the first call in a process, which takes down what there is. */
extern bool pgos_role_settings_changed(Oid role);

#endif
