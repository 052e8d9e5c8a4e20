/*
 * utc.h
 *		Seconds since 1970 as the compact UTC text of signatures and dataset folders.
 *
 * Depends on neither TZ nor locale.  Runs anywhere; never raises, allocates nothing.
 */
#ifndef PGOS_UTC_H
#define PGOS_UTC_H

#include "core/base.h"
#include "pgtime.h"

/* "YYYYMMDDThhmmssZ" and its NUL. */
#define PGOS_UTC_SIZE 17
/* Its first characters "YYYYMMDD" are the date. */
#define PGOS_UTC_DATE_LEN 8

/* Times before 1970 and after 9999 give the nearest time that the format can hold. */
extern void pgos_utc_format(pg_time_t seconds, char out[PGOS_UTC_SIZE]);

#endif
