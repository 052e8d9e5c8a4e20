/*
 * file_list.c
 *		Walks the directories of a file: store: listings in key order, unfinished files.
 *
 * One directory's names are held in memory at a time for each level of depth, in a context that is freed when
 * the directory is done.
 */
#include "postgres.h"

#include <dirent.h>
#include <signal.h>
#include <unistd.h>

#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "store/file_internal.h"
#include "utils/memutils.h"

/* Symbolic links may make a circle. */
#define MAX_DEPTH 64

typedef struct DirName
{
	char	   *text; /* with a '/' at its end if it is a directory */
	struct stat st;
} DirName;

typedef struct DirNames
{
	DirName *names;
	int		 count;
	int		 size;
} DirNames;

typedef struct Walk
{
	PgosStore		*store;
	bool			 temporary; /* look at unfinished files, not at objects */
	char			 delimiter;
	PgosListCallback callback;
	void			*arg;
	MemoryContext	 caller; /* the callback's memory context */
} Walk;

static int
compare_names(const void *a, const void *b)
{
	return strcmp(((const DirName *) a)->text, ((const DirName *) b)->text);
}

static bool
is_temporary(const char *name)
{
	return strncmp(name, PGOS_FILE_TMP_PREFIX, strlen(PGOS_FILE_TMP_PREFIX)) == 0;
}

/* Reset callback: the directory is closed whatever happens while it is read. */
static void
close_dir(void *arg)
{
	closedir(arg);
}

/*
 * The names in a directory that begin with `prefix`, in the order of the keys below it: a directory sorts as
 * if its name ended in '/'.  A directory that is not there has none.
 */
static void
read_dir(Walk *walk, const char *path, const char *prefix, DirNames *result)
{
	MemoryContext context =
		AllocSetContextCreate(CurrentMemoryContext, "pgobjstore directory", ALLOCSET_SMALL_SIZES);
	MemoryContextCallback *callback = MemoryContextAlloc(context, sizeof(MemoryContextCallback));
	struct dirent		  *entry;
	DIR					  *dir = opendir(path);

	memset(result, 0, sizeof(*result));
	if (dir == NULL)
	{
		if (errno != ENOENT && errno != ENOTDIR)
			pgos_file_raise(walk->store, "read directory", path);
		MemoryContextDelete(context);
		return;
	}
	callback->func = close_dir;
	callback->arg = dir;
	MemoryContextRegisterResetCallback(context, callback);

	while (errno = 0, (entry = readdir(dir)) != NULL)
	{
		DirName	   *name;
		char		full[MAXPGPATH * 2];
		struct stat st;

		CHECK_FOR_INTERRUPTS();
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		/* Removed in the meantime, or a link to nowhere: not there. */
		snprintf(full, sizeof(full), "%s/%s", path, entry->d_name);
		if (stat(full, &st) != 0)
			continue;
		if (!S_ISDIR(st.st_mode) &&
			(!S_ISREG(st.st_mode) || is_temporary(entry->d_name) != walk->temporary))
			continue;
		if (!walk->temporary && strncmp(entry->d_name, prefix, strlen(prefix)) != 0)
			continue;
		/* A prefix says nothing about names of unfinished files, but about those of directories. */
		if (walk->temporary && S_ISDIR(st.st_mode) &&
			strncmp(entry->d_name, prefix, strlen(prefix)) != 0)
			continue;

		if (result->count == result->size)
		{
			result->size = Max(result->size * 2, 64);
			result->names = result->names == NULL
								? palloc(result->size * sizeof(DirName))
								: repalloc_huge(result->names, result->size * sizeof(DirName));
		}
		name = &result->names[result->count++];
		name->text = psprintf("%s%s", entry->d_name, S_ISDIR(st.st_mode) ? "/" : "");
		name->st = st;
	}
	if (errno != 0)
		pgos_file_raise(walk->store, "read directory", path);
	MemoryContextDelete(context);
	qsort(result->names, result->count, sizeof(DirName), compare_names);
}

/* Is there any object below the directory? */
static bool
has_object(Walk *walk, const char *path, int depth)
{
	DirNames names;
	bool	 found = false;

	if (depth > MAX_DEPTH)
		return false;
	read_dir(walk, path, "", &names);
	for (int i = 0; i < names.count && !found; i++)
		found = !S_ISDIR(names.names[i].st.st_mode) ||
				has_object(walk, psprintf("%s/%s", path, names.names[i].text), depth + 1);
	return found;
}

static bool
report(Walk *walk, const char *key, const PgosObjectInfo *info)
{
	MemoryContext old = MemoryContextSwitchTo(walk->caller);
	bool		  more = walk->callback(key, info, walk->arg);

	MemoryContextSwitchTo(old);
	return more;
}

/*
 * Reports what is in the directory `dir` (relative to the root, "" or ending in '/') and begins with prefix.
 * False when the callback has enough.
 */
static bool
walk_dir(Walk *walk, const char *dir, const char *prefix, int depth)
{
	MemoryContext context =
		AllocSetContextCreate(CurrentMemoryContext, "pgobjstore listing", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	const char	 *root = walk->store->options.url.prefix;
	DirNames	  names;
	bool		  more = true;

	read_dir(walk, psprintf("%s/%s", root, dir), prefix, &names);
	for (int i = 0; i < names.count && more; i++)
	{
		DirName		  *name = &names.names[i];
		char		  *key = psprintf("%s%s", dir, name->text);
		PgosObjectInfo info = {0};

		if (!S_ISDIR(name->st.st_mode))
		{
			pgos_file_info(&name->st, &info);
			more = report(walk, key, &info);
		}
		else if (walk->delimiter == '/')
			more = !has_object(walk, psprintf("%s/%s", root, key), depth + 1) ||
				   report(walk, key, &info);
		else if (depth < MAX_DEPTH)
			more = walk_dir(walk, key, "", depth + 1);
		pfree(key);
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	return more;
}

/* Splits a key prefix at its last slash, and walks. */
static void
walk_prefix(Walk *walk, const char *key_prefix)
{
	const char *slash = strrchr(key_prefix, '/');
	size_t		dir_len = slash != NULL ? slash - key_prefix + 1 : 0;
	char	   *dir = pnstrdup(key_prefix, dir_len);

	/* A prefix that no key can have has no keys: it must not lead out of the root. */
	if (dir_len > 0)
	{
		char *without_slash = pnstrdup(dir, dir_len - 1);

		(void) pgos_file_path(walk->store, without_slash);
		pfree(without_slash);
	}
	(void) walk_dir(walk, dir, key_prefix + dir_len, 0);
	pfree(dir);
}

void
pgos_file_list(PgosStore *store, const char *key_prefix, char delimiter, PgosListCallback callback,
			   void *arg)
{
	Walk walk = {store, false, delimiter, callback, arg, CurrentMemoryContext};

	if (delimiter != '\0' && delimiter != '/')
		elog(ERROR, "listing with delimiter \"%c\" is not supported", delimiter);
	walk_prefix(&walk, key_prefix);
}

/* ---------------------------------------------------------------- unfinished files */

typedef struct AbortArg
{
	PgosStore  *store;
	const char *key_prefix;
	int			removed;
} AbortArg;

/* The process that made the temporary file, from its name; 0 for a name that is none of ours. */
static int
process_of(const char *key)
{
	const char	*slash = strrchr(key, '/');
	const char	*name = slash != NULL ? slash + 1 : key;
	int			 pid;
	unsigned int counter;

	if (sscanf(name + strlen(PGOS_FILE_TMP_PREFIX), "%d-%u", &pid, &counter) != 2 || pid <= 0)
		return 0;
	return pid;
}

static bool
abort_one(const char *key, const PgosObjectInfo *info, void *arg)
{
	AbortArg	 *abort = arg;
	char		 *path = psprintf("%s/%s", abort->store->options.url.prefix, key);
	PgosTempFile *mine = pgos_temp_file_find(path);
	int			  pid = process_of(key);

	if (mine != NULL)
	{
		if (strncmp(mine->key, abort->key_prefix, strlen(abort->key_prefix)) == 0)
		{
			pgos_temp_file_discard(mine);
			abort->removed++;
		}
	}
	else if (pid != 0 && (pid == MyProcPid || (kill(pid, 0) != 0 && errno == ESRCH)))
	{
		if (unlink(path) == 0)
			abort->removed++;
		else if (errno != ENOENT)
			pgos_file_raise(abort->store, "remove", path);
		pgos_file_remove_empty_dirs(abort->store, path);
	}
	pfree(path);
	return true;
}

int
pgos_file_abort_all(PgosStore *store, const char *key_prefix)
{
	AbortArg arg = {store, key_prefix, 0};
	Walk	 walk = {store, true, '\0', abort_one, &arg, CurrentMemoryContext};

	walk_prefix(&walk, key_prefix);
	return arg.removed;
}
