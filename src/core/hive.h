/*
 * hive.h
 *		Folders named key=value, as Hive, Spark and others write them: columns that are not in the files.
 *
 * Runs anywhere; raises nothing but out of memory.
 */
#ifndef PGOS_HIVE_H
#define PGOS_HIVE_H

#include "core/base.h"

/*
 * The next key=value folder of an object's key.  *position (0 at first) is where the search goes on.  name and
 * value are palloc'd with %XX undone; value is NULL for __HIVE_DEFAULT_PARTITION__, the folder of the nulls.
 * False when there are no more.
 */
extern bool pgos_hive_next(const char *key, size_t *position, char **name, char **value);

#endif
