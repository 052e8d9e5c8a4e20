/*
 * file_internal.h
 *		Shared by the files of the file: driver only.
 *
 * file.c is the driver's table, reading and writing; file_path.c names, directories and temporary files;
 * file_list.c walks directories.
 */
#ifndef PGOS_FILE_INTERNAL_H
#define PGOS_FILE_INTERNAL_H

#include "postgres.h"

#include <sys/stat.h>

#include "lib/ilist.h"
#include "store/store_driver.h"

/* What has not been completed yet; not a key, and in no listing. */
#define PGOS_FILE_TMP_PREFIX ".pgobjstore-tmp-"

/*
 * A file being written: a temporary file in the final one's directory.  Registered with the context it was
 * made in, whose reset closes and removes it unless it was published.
 */
typedef struct PgosTempFile
{
	PgosStore			 *store;
	char				 *key;
	char				 *path; /* the final one's */
	char				 *tmp_path;
	int					  fd; /* -1 when closed */
	bool				  published;
	int64				  written;
	dlist_node			  node; /* in the list of this process's temporary files */
	MemoryContextCallback callback;
} PgosTempFile;

/* ---------------------------------------------------------------- file_path.c */

/* The path of a key; raises for a key that is no safe relative path. */
extern char *pgos_file_path(PgosStore *store, const char *key);

/* Creates the file's directory (durably) and the temporary file, below the current memory context. */
extern PgosTempFile *pgos_temp_file_create(PgosStore *store, const char *key);
/* Writes at the end. */
extern void pgos_temp_file_write(PgosTempFile *file, const void *data, size_t len);
/* Makes it durable under its final name.  info may be NULL. */
extern void
pgos_temp_file_publish(PgosTempFile *file, PgosPutCondition condition, PgosObjectInfo *info);
/* Closes and removes it; may be repeated.  Never raises. */
extern void pgos_temp_file_discard(PgosTempFile *file);

/* Is it one that this process is writing?  key (may be NULL) gets its key. */
extern PgosTempFile *pgos_temp_file_find(const char *tmp_path);

/* Removes the directories above the path that are empty, up to the store's root.  Never raises. */
extern void pgos_file_remove_empty_dirs(PgosStore *store, const char *path);

extern void pgos_file_info(const struct stat *st, PgosObjectInfo *info);

/*
 * ereport(ERROR) for a failed system call (errno) on a file of the store: 'could not ACTION file "path" of
 * server "x": reason'.
 */
extern void pgos_file_raise(PgosStore *store, const char *action, const char *path);

/* ---------------------------------------------------------------- file_list.c */

extern void pgos_file_list(PgosStore *store, const char *key_prefix, char delimiter,
						   PgosListCallback callback, void *arg);
/* Removes temporary files of dead processes, and this process's own, whose keys may begin with key_prefix. */
extern int pgos_file_abort_all(PgosStore *store, const char *key_prefix);

#endif
