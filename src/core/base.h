/*
 * base.h
 *		What every file of core/ includes first.
 *
 * core/ is pure C: no catalog, no ereport, no memory contexts.  It uses only what PostgreSQL offers to
 * frontends too (palloc, StringInfo, pg_crc32c, pg_cryptohash, pg_hmac), so that the unit tests compile it
 * with -DFRONTEND and link libpgcommon.  Functions that can fail return false and give a message; none raises.
 */
#ifndef PGOS_BASE_H
#define PGOS_BASE_H

#ifdef FRONTEND
#include "postgres_fe.h"
#else
#include "postgres.h"
#endif
#include "lib/stringinfo.h"

#endif
