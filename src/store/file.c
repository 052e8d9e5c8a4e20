/*
 * file.c
 *		The file: driver: objects are files below a directory of the server's file system.
 *
 * It serves as the embedded default store and as a store on mounted file systems.  Nothing is asynchronous: the
 * work is done in the *_start() functions, block by block with a look at interrupts, and errors are raised
 * there.  A multipart upload is a temporary file whose parts come in order.
 *
 * The ETag of a file is made of its size, its modification time and its inode: a file that was replaced has
 * another one.
 */
#include "postgres.h"

#include <fcntl.h>
#include <unistd.h>

#include "miscadmin.h"
#include "storage/fd.h"
#include "store/file_internal.h"
#include "utils/memutils.h"

#define BLOCK (1024 * 1024)
#define MAX_PARTS 1000000

typedef struct FileUpload
{
	PgosUpload	  base;
	PgosTempFile *file;
	int			  last_part;
} FileUpload;

static void
file_open(PgosStore *store)
{
	store->limits.min_part_size = 1;
	store->limits.max_part_size = PG_INT64_MAX;
	store->limits.max_parts = MAX_PARTS;
	store->limits.max_object_size = PG_INT64_MAX;
}

static char *
file_url(PgosStore *store, const char *key)
{
	const char *root = store->options.url.prefix;
	char	   *url = psprintf("file:%s%s/%s", root[0] == '/' ? "//" : "", root, key);
	char	   *shown = pgos_display_text(url);

	pfree(url);
	return shown;
}

/* ---------------------------------------------------------------- writing */

static PgosRequest *
file_put_start(PgosStore *store, const char *key, const void *data, size_t len,
			   PgosPutCondition condition, PgosObjectInfo *info)
{
	PgosRequest	 *request = pgos_request_create(store, sizeof(PgosRequest));
	MemoryContext old = MemoryContextSwitchTo(request->context);
	PgosTempFile *file;

	PG_TRY();
	{
		file = pgos_temp_file_create(store, key);
		pgos_temp_file_write(file, data, len);
		pgos_temp_file_publish(file, condition, info);
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(old);
		pgos_request_cancel(request);
		PG_RE_THROW();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(old);

	store->counters.requests++;
	store->counters.bytes_sent += len;
	pgos_request_set_done(request);
	return request;
}

static PgosUpload *
file_upload_begin(PgosStore *store, const char *key)
{
	FileUpload	 *upload = (FileUpload *) pgos_upload_create(store, key, sizeof(FileUpload));
	MemoryContext old = MemoryContextSwitchTo(upload->base.context);
	const char	 *name;

	upload->file = pgos_temp_file_create(store, key);
	name = strrchr(upload->file->tmp_path, '/') + 1;
	upload->base.id = pstrdup(name);
	MemoryContextSwitchTo(old);
	return &upload->base;
}

static void
require_open(FileUpload *upload)
{
	if (upload->file->fd < 0)
		ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
						errmsg("upload of \"%s\" to server \"%s\" is closed",
							   pgos_display_text(upload->base.key),
							   upload->base.store->options.server_name)));
}

static PgosRequest *
file_upload_part_start(PgosUpload *base, int part_no, const void *data, size_t len)
{
	FileUpload	*upload = (FileUpload *) base;
	PgosStore	*store = base->store;
	PgosRequest *request;

	require_open(upload);
	/* The place of a part is known only when all before it are. */
	if (part_no != upload->last_part + 1)
		elog(ERROR, "part %d of \"%s\" follows part %d", part_no, pgos_display_text(base->key),
			 upload->last_part);
	pgos_temp_file_write(upload->file, data, len);
	upload->last_part = part_no;

	store->counters.requests++;
	store->counters.bytes_sent += len;
	request = pgos_request_create(store, sizeof(PgosRequest));
	pgos_request_set_done(request);
	return request;
}

static void
file_upload_complete(PgosUpload *base, int64 total_size, PgosPutCondition condition,
					 PgosObjectInfo *info)
{
	FileUpload *upload = (FileUpload *) base;

	require_open(upload);
	if (upload->file->written != total_size)
		ereport(ERROR, (errcode(ERRCODE_DATA_CORRUPTED),
						errmsg("upload of \"%s\" to server \"%s\" has " INT64_FORMAT
							   " bytes, expected " INT64_FORMAT,
							   pgos_display_text(base->key), base->store->options.server_name,
							   upload->file->written, total_size)));
	pgos_temp_file_publish(upload->file, condition, info);
}

static void
file_upload_abort(PgosUpload *base)
{
	pgos_temp_file_discard(((FileUpload *) base)->file);
}

/* ---------------------------------------------------------------- reading */

/* Opens a file to read; -1 when there is none.  The caller closes it. */
static int
open_file(PgosStore *store, const char *path, struct stat *st)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0)
	{
		if (errno == ENOENT || errno == ENOTDIR)
			return -1;
		pgos_file_raise(store, "open", path);
	}
	if (fstat(fd, st) != 0 || !S_ISREG(st->st_mode))
	{
		close(fd);
		return -1;
	}
	return fd;
}

static void
raise_missing(PgosStore *store, const char *path)
{
	errno = ENOENT;
	pgos_file_raise(store, "open", path);
}

/* Reads just len bytes. */
static void
read_bytes(PgosStore *store, int fd, const char *path, int64 offset, void *dest, size_t len)
{
	char *p = dest;

	while (len > 0)
	{
		ssize_t n;

		CHECK_FOR_INTERRUPTS();
		n = pread(fd, p, Min(len, BLOCK), (off_t) offset);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			pgos_file_raise(store, "read", path);
		if (n == 0)
			ereport(
				ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("could not read file \"%s\" of server \"%s\": it is shorter than expected",
						pgos_display_text(path), store->options.server_name)));
		store->counters.bytes_received += n;
		offset += n;
		p += n;
		len -= n;
	}
}

static PgosRequest *
file_get_start(PgosStore *store, const char *key, int64 offset, size_t len, const char *if_match,
			   void *dest)
{
	char		  *path = pgos_file_path(store, key);
	struct stat	   st;
	PgosObjectInfo info;
	PgosRequest	  *request;
	int			   fd = open_file(store, path, &st);

	if (fd < 0)
		raise_missing(store, path);
	store->counters.requests++;
	PG_TRY();
	{
		pgos_file_info(&st, &info);
		if (if_match != NULL && strcmp(if_match, info.etag) != 0)
			ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
							errmsg("could not read file \"%s\" of server \"%s\": it was replaced "
								   "while it was being read",
								   pgos_display_text(path), store->options.server_name),
							errhint("Run the job again to read the new file.")));
		read_bytes(store, fd, path, offset, dest, len);
	}
	PG_FINALLY();
	{
		close(fd);
	}
	PG_END_TRY();
	pfree(path);

	request = pgos_request_create(store, sizeof(PgosRequest));
	pgos_request_set_done(request);
	return request;
}

static char *
file_read(PgosStore *store, const char *key, size_t max_len, size_t *len, PgosObjectInfo *info)
{
	char *path = pgos_file_path(store, key);
	char *volatile data = NULL;
	struct stat st;
	int			fd = open_file(store, path, &st);

	if (fd < 0)
		return NULL;
	store->counters.requests++;
	PG_TRY();
	{
		if ((uint64) st.st_size > max_len)
			ereport(
				ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("could not read file \"%s\" of server \"%s\": it is larger than %zu bytes",
						pgos_display_text(path), store->options.server_name, max_len)));
		data = MemoryContextAllocHuge(CurrentMemoryContext, st.st_size + 1);
		read_bytes(store, fd, path, 0, data, st.st_size);
		data[st.st_size] = '\0';
	}
	PG_FINALLY();
	{
		close(fd);
	}
	PG_END_TRY();
	pfree(path);

	*len = st.st_size;
	if (info != NULL)
		pgos_file_info(&st, info);
	return data;
}

static bool
file_head(PgosStore *store, const char *key, PgosObjectInfo *info)
{
	char	   *path = pgos_file_path(store, key);
	struct stat st;
	bool		found = stat(path, &st) == 0;

	if (!found && errno != ENOENT && errno != ENOTDIR)
		pgos_file_raise(store, "look at", path);
	pfree(path);
	store->counters.requests++;
	if (!found || !S_ISREG(st.st_mode))
		return false;
	if (info != NULL)
		pgos_file_info(&st, info);
	return true;
}

static void
file_delete(PgosStore *store, const char *key)
{
	char *path = pgos_file_path(store, key);

	store->counters.requests++;
	if (unlink(path) != 0 && errno != ENOENT && errno != ENOTDIR)
		pgos_file_raise(store, "remove", path);
	pgos_file_remove_empty_dirs(store, path);
	pfree(path);
}

const PgosStoreDriver pgos_file_driver = {.open = file_open,
										  .url = file_url,
										  .put_start = file_put_start,
										  .get_start = file_get_start,
										  .upload_begin = file_upload_begin,
										  .upload_part_start = file_upload_part_start,
										  .upload_complete = file_upload_complete,
										  .upload_abort = file_upload_abort,
										  .upload_abort_all = pgos_file_abort_all,
										  .head = file_head,
										  .read = file_read,
										  .delete = file_delete,
										  .list = pgos_file_list};
