/*
 * file_path.c
 *		Names, directories and temporary files of the file: driver.
 *
 * A key is a path below the store's root.  A file appears under its final name in one step (rename, or link if
 * it must not exist yet), with its content and its directory entry made durable before success is reported.
 *
 * The server's own file descriptors (fd.c) belong to transactions; these belong to memory contexts.
 */
#include "postgres.h"

#include <fcntl.h>
#include <unistd.h>

#include "common/file_perm.h"
#include "miscadmin.h"
#include "storage/fd.h"
#include "store/file_internal.h"

/* Bytes written between two looks at interrupts. */
#define BLOCK (1024 * 1024)
#define MAX_COMPONENT 255
/* A directory may be removed by somebody else (as empty) between its creation and the file's. */
#define CREATE_TRIES 5

static dlist_head temp_files = DLIST_STATIC_INIT(temp_files);

void
pgos_file_raise(PgosStore *store, const char *action, const char *path)
{
	int	 code = errno;
	bool full = code == ENOSPC || code == EDQUOT;

	errno = code;
	ereport(ERROR, (full ? errcode(ERRCODE_DISK_FULL) : errcode_for_file_access(),
					errmsg("could not %s file \"%s\" of server \"%s\": %m", action,
						   pgos_display_text(path), store->options.server_name),
					full ? errhint("Free space on the file system of the store, or set the option "
								   "url of the server to another one.")
						 : 0));
	pg_unreachable();
}

static void
raise_bad_key(PgosStore *store, const char *key, const char *detail)
{
	ereport(ERROR, (errcode(ERRCODE_INVALID_NAME),
					errmsg("key \"%s\" cannot be stored on server \"%s\"", pgos_display_text(key),
						   store->options.server_name),
					errdetail_internal("%s", detail)));
}

char *
pgos_file_path(PgosStore *store, const char *key)
{
	const char *component = key;
	char	   *path;

	for (;;)
	{
		size_t len = strcspn(component, "/");

		if (len == 0)
			raise_bad_key(store, key,
						  "In a file: store a key has no empty component between slashes.");
		if (len > MAX_COMPONENT)
			raise_bad_key(store, key,
						  "In a file: store a component between slashes has at most 255 bytes.");
		if ((len == 1 && component[0] == '.') || (len == 2 && strncmp(component, "..", 2) == 0))
			raise_bad_key(store, key, "In a file: store no component of a key is \".\" or \"..\".");
		if (strncmp(component, PGOS_FILE_TMP_PREFIX, strlen(PGOS_FILE_TMP_PREFIX)) == 0)
			raise_bad_key(store, key,
						  "Names that begin with \"" PGOS_FILE_TMP_PREFIX
						  "\" are those of unfinished files.");
		if (component[len] == '\0')
			break;
		component += len + 1;
	}

	path = psprintf("%s/%s", store->options.url.prefix, key);
	if (strlen(path) >= MAXPGPATH)
		raise_bad_key(store, key, "The path is too long.");
	return path;
}

/* The directory part; a palloc'd copy. */
static char *
parent_of(const char *path)
{
	char *parent = pstrdup(path);

	get_parent_directory(parent);
	if (parent[0] == '\0')
		snprintf(parent, strlen(path) + 1, ".");
	return parent;
}

static void
sync_dir(PgosStore *store, const char *dir)
{
	if (fsync_fname_ext(dir, true, false, LOG) != 0)
		pgos_file_raise(store, "fsync directory of", dir);
}

/* Makes the directory and what is missing above it, durably. */
static void
make_dirs(PgosStore *store, const char *dir)
{
	struct stat st;
	char	   *parent;

	if (stat(dir, &st) == 0)
		return;
	if (errno != ENOENT)
		pgos_file_raise(store, "look at", dir);
	parent = parent_of(dir);
	make_dirs(store, parent);
	if (MakePGDirectory(dir) != 0)
	{
		if (errno == EEXIST)
			return;
		/* Removed by somebody else in this moment: the caller tries again. */
		if (errno == ENOENT)
			return;
		pgos_file_raise(store, "create directory", dir);
	}
	sync_dir(store, parent);
	pfree(parent);
}

void
pgos_file_remove_empty_dirs(PgosStore *store, const char *path)
{
	const char *root = store->options.url.prefix;
	char		dir[MAXPGPATH];

	strlcpy(dir, path, sizeof(dir));
	for (;;)
	{
		char *slash = strrchr(dir, '/');

		if (slash == NULL)
			return;
		*slash = '\0';
		if (strlen(dir) <= strlen(root) || rmdir(dir) != 0)
			return;
	}
}

/* ---------------------------------------------------------------- temporary files */

void
pgos_temp_file_discard(PgosTempFile *file)
{
	if (file->fd >= 0)
	{
		close(file->fd);
		file->fd = -1;
		ReleaseExternalFD();
	}
	if (!file->published)
	{
		(void) unlink(file->tmp_path);
		pgos_file_remove_empty_dirs(file->store, file->path);
		file->published = true; /* nothing left to remove */
	}
	if (file->node.next != NULL)
		dlist_delete(&file->node);
	memset(&file->node, 0, sizeof(file->node));
}

/* Reset callback. */
static void
temp_file_release(void *arg)
{
	pgos_temp_file_discard(arg);
}

PgosTempFile *
pgos_temp_file_find(const char *tmp_path)
{
	dlist_iter iter;

	dlist_foreach(iter, &temp_files)
	{
		PgosTempFile *file = dlist_container(PgosTempFile, node, iter.cur);

		if (strcmp(file->tmp_path, tmp_path) == 0)
			return file;
	}
	return NULL;
}

PgosTempFile *
pgos_temp_file_create(PgosStore *store, const char *key)
{
	static uint32 counter = 0;
	PgosTempFile *file = palloc0(sizeof(PgosTempFile));
	char		 *dir;

	file->store = store;
	file->key = pstrdup(key);
	file->fd = -1;
	file->path = pgos_file_path(store, key);
	dir = parent_of(file->path);
	ReserveExternalFD();
	file->published = true; /* nothing to remove yet */
	file->callback.func = temp_file_release;
	file->callback.arg = file;

	for (int try = 0; try < CREATE_TRIES && file->fd < 0; try++)
	{
		PG_TRY();
		{
			make_dirs(store, dir);
		}
		PG_CATCH();
		{
			ReleaseExternalFD();
			PG_RE_THROW();
		}
		PG_END_TRY();
		file->tmp_path = psprintf("%s/%s%d-%u", dir, PGOS_FILE_TMP_PREFIX, MyProcPid, counter++);
		file->fd = open(file->tmp_path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
						pg_file_create_mode);
		if (file->fd < 0 && errno != ENOENT && errno != EEXIST)
			break;
	}
	if (file->fd < 0)
	{
		ReleaseExternalFD();
		pgos_file_raise(store, "create", file->path);
	}
	file->published = false;
	dlist_push_tail(&temp_files, &file->node);
	MemoryContextRegisterResetCallback(CurrentMemoryContext, &file->callback);
	pfree(dir);
	return file;
}

void
pgos_temp_file_write(PgosTempFile *file, const void *data, size_t len)
{
	const char *p = data;

	while (len > 0)
	{
		ssize_t n;

		CHECK_FOR_INTERRUPTS();
		errno = 0;
		n = pwrite(file->fd, p, Min(len, BLOCK), (off_t) file->written);
		if (n <= 0)
		{
			if (n < 0 && errno == EINTR)
				continue;
			/* Nothing written and no reason given: the disk is full. */
			if (errno == 0)
				errno = ENOSPC;
			pgos_file_raise(file->store, "write", file->path);
		}
		file->written += n;
		p += n;
		len -= n;
	}
}

void
pgos_temp_file_publish(PgosTempFile *file, PgosPutCondition condition, PgosObjectInfo *info)
{
	PgosStore  *store = file->store;
	struct stat st;
	char	   *dir = parent_of(file->path);

	if (pg_fsync(file->fd) != 0)
		pgos_file_raise(store, "fsync", file->path);

	if (condition == PGOS_PUT_IF_ABSENT)
	{
		if (link(file->tmp_path, file->path) != 0)
		{
			if (errno == EEXIST)
				ereport(ERROR,
						(errcode(ERRCODE_DUPLICATE_OBJECT),
						 errmsg("could not write file \"%s\" of server \"%s\": it exists already",
								pgos_display_text(file->path), store->options.server_name)));
			pgos_file_raise(store, "create", file->path);
		}
		(void) unlink(file->tmp_path);
	}
	else if (rename(file->tmp_path, file->path) != 0)
		pgos_file_raise(store, "create", file->path);
	file->published = true;

	if (fstat(file->fd, &st) != 0)
		pgos_file_raise(store, "look at", file->path);
	sync_dir(store, dir);
	pfree(dir);
	pgos_temp_file_discard(file);
	if (info != NULL)
		pgos_file_info(&st, info);
}

void
pgos_file_info(const struct stat *st, PgosObjectInfo *info)
{
	uint64 nanoseconds = (uint64) st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec;

	info->size = st->st_size;
	info->mtime = st->st_mtim.tv_sec;
	snprintf(info->etag, sizeof(info->etag), "\"%lld-%llx-%llu\"", (long long) st->st_size,
			 (unsigned long long) nanoseconds, (unsigned long long) st->st_ino);
}
