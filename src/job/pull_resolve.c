/*
 * pull_resolve.c
 *		Which objects a pull is about.
 *
 *		no path		the newest dataset of the relation
 *		"a/b.csv"	this object
 *		"a/b/"		the dataset in this folder; or the newest dataset in a folder of it; or every object below it
 *		pattern		every object that matches (core/glob.h), unless a key or a dataset's folder is just so
 *
 * Objects that a folder or pattern names come in the byte order of their keys.  Left out are folders' own keys
 * ("a/b/", empty), manifests, and hidden names (pgos_glob_is_hidden).
 *
 * Runs in a worker; raises.
 */
#include "postgres.h"

#include "access/xact.h"
#include "commands/dbcommands.h"
#include "copy/copy_options.h"
#include "core/glob.h"
#include "core/key.h"
#include "job/pull_internal.h"
#include "miscadmin.h"
#include "store/store.h"
#include "utils/memutils.h"

void
pgos_pull_not_found(PgosPull *pull, const char *key, const char *what)
{
	ereport(
		ERROR,
		(errcode(ERRCODE_UNDEFINED_OBJECT),
		 errmsg("no %s at \"%s\" on server \"%s\"", what, pgos_store_url(pull->run->store, key),
				pull->job->server),
		 pull->job->path == NULL
			 ? errhint("Push the relation first, or say where the dataset is with path => "
					   "'folder/' (the folder that objstore_push showed as path).")
			 : errhint(
				   "A path is relative to the url of the server: 'folder/' for a dataset or all "
				   "objects below it, 'folder/name.csv.gz' for one object, 'folder/*.csv' "
				   "for those that match.")));
	pg_unreachable();
}

static PgosJobObject *
pgos_pull_add(PgosPull *pull, const char *key, const PgosObjectInfo *info)
{
	PgosJobObject *object = palloc0(sizeof(PgosJobObject));

	object->key = pstrdup(key);
	object->url = pgos_store_url(pull->run->store, key);
	object->bytes = info->size;
	object->rows = -1;
	object->raw_bytes = -1;
	object->etag = info->etag[0] != '\0' ? pstrdup(info->etag) : NULL;
	object->parts = 1;
	pull->objects = lappend(pull->objects, object);
	pull->total_bytes += info->size;
	return object;
}

static void
pgos_pull_one_object(PgosPull *pull, const char *key)
{
	PgosObjectInfo info;

	if (!pgos_store_head(pull->run->store, key, &info))
		pgos_pull_not_found(pull, key, "object");
	(void) pgos_pull_add(pull, key, &info);
}

/* ---------------------------------------------------------------- listings */

typedef struct PgosPullListing
{
	PgosPull	 *pull;
	MemoryContext context;
	const char	 *path;
	size_t		  prefix_len; /* of the keys, what was listed */
	PgosGlob	 *glob;		  /* or NULL: all */
	char		 *newest;	  /* folder of the last manifest right below the path, or NULL */
	bool		  exact;	  /* the key that is the path itself was found */
} PgosPullListing;

static bool
pgos_pull_is_name(const char *key, const char *name)
{
	const char *slash = strrchr(key, '/');

	return strcmp(slash != NULL ? slash + 1 : key, name) == 0;
}

/* Notes that a folder right below the path has a manifest: "path/<folder>/manifest.json". */
static void
pgos_pull_note_manifest(PgosPullListing *listing, const char *key)
{
	const char *rest = key + listing->prefix_len;
	const char *slash = strchr(rest, '/');

	if (listing->glob == NULL && slash != NULL && strcmp(slash + 1, PGOS_MANIFEST_NAME) == 0)
		listing->newest = pnstrdup(key, slash + 1 - key);
}

static bool
pgos_pull_list_callback(const char *key, const PgosObjectInfo *info, void *arg)
{
	PgosPullListing *listing = arg;
	MemoryContext	 old = MemoryContextSwitchTo(listing->context);
	bool			 is_folder = key[strlen(key) - 1] == '/' && info->size <= 0;
	bool			 is_exact = listing->glob != NULL && strcmp(key, listing->path) == 0;

	if (pgos_pull_is_name(key, PGOS_MANIFEST_NAME))
		pgos_pull_note_manifest(listing, key);
	else if (is_exact || (!is_folder && !pgos_glob_is_hidden(key, listing->prefix_len) &&
						  (listing->glob == NULL || pgos_glob_match(listing->glob, key))))
	{
		if (is_exact)
		{
			listing->exact = true;
			listing->pull->objects = NIL;
			listing->pull->total_bytes = 0;
		}
		if (is_exact || !listing->exact)
			(void) pgos_pull_add(listing->pull, key, info);
	}
	MemoryContextSwitchTo(old);
	CHECK_FOR_INTERRUPTS();
	return true;
}

static int
pgos_pull_compare_keys(const ListCell *a, const ListCell *b)
{
	return strcmp(((PgosJobObject *) lfirst(a))->key, ((PgosJobObject *) lfirst(b))->key);
}

/* Every object that the path (a folder or a pattern) names. */
static void
pgos_pull_list(PgosPull *pull, PgosPullListing *listing, const char *prefix)
{
	listing->pull = pull;
	listing->context = CurrentMemoryContext;
	listing->prefix_len = strlen(prefix);
	pgos_store_list(pull->run->store, prefix, '\0', pgos_pull_list_callback, listing);
	/* S3 promises this order, its clones mostly keep it */
	list_sort(pull->objects, pgos_pull_compare_keys);
}

static void
pgos_pull_nothing_matches(PgosPull *pull, const char *path, const char *prefix)
{
	ereport(ERROR, (errcode(ERRCODE_UNDEFINED_OBJECT),
					errmsg("no object matches path \"%s\" on server \"%s\"", pull->job->path,
						   pull->job->server),
					errdetail("The objects below \"%s\" were listed.",
							  pgos_store_url(pull->run->store, prefix)),
					errhint("Empty folders, manifests and names that begin with \"_\" or \".\" do "
							"not count. A \"*\" "
							"stays within one folder, \"**\" goes through all.")));
}

/* The path taken as it is, whatever it looks like; false: there is no such dataset or object. */
static bool
pgos_pull_literal(PgosPull *pull, const char *path, bool also_object)
{
	PgosObjectInfo info;

	if (path[strlen(path) - 1] == '/')
	{
		pull->manifest = pgos_manifest_read(pull->run->store, path);
		pull->folder = pull->manifest != NULL ? pstrdup(path) : NULL;
		return pull->manifest != NULL;
	}
	if (!also_object || !pgos_store_head(pull->run->store, path, &info))
		return false;
	(void) pgos_pull_add(pull, path, &info);
	return true;
}

static void
pgos_pull_glob(PgosPull *pull, const char *pattern)
{
	PgosPullListing listing = {0};
	const char	   *problem;

	listing.path = pattern;
	/* the listing would find an object of that name */
	if (pgos_pull_literal(pull, pattern, false))
		return;
	listing.glob = pgos_glob_compile(pattern, &problem);
	if (listing.glob == NULL && pgos_pull_literal(pull, pattern, true))
		return;
	if (listing.glob == NULL)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("invalid value for argument \"path\": \"%s\"", pull->job->path),
						errdetail("%s", problem)));
	pgos_pull_list(pull, &listing, pgos_glob_prefix(listing.glob));
	if (pull->objects == NIL)
		pgos_pull_nothing_matches(pull, pattern, pgos_glob_prefix(listing.glob));
}

static void
pgos_pull_folder(PgosPull *pull, const char *path)
{
	PgosPullListing listing = {0};

	pull->folder = pstrdup(path);
	pull->manifest = pgos_manifest_read(pull->run->store, path);
	if (pull->manifest != NULL)
		return;
	listing.path = path;
	pgos_pull_list(pull, &listing, path);
	if (listing.newest != NULL)
	{
		pull->folder = listing.newest;
		pull->manifest = pgos_manifest_read(pull->run->store, listing.newest);
	}
	if (pull->manifest != NULL)
		return;
	pull->folder = NULL;
	if (pull->objects == NIL)
		pgos_pull_nothing_matches(pull, path, path);
}

/* The newest dataset of the relation, where a push without a path puts it. */
static void
pgos_pull_newest(PgosPull *pull)
{
	StringInfoData prefix;
	char		  *database;

	StartTransactionCommand();
	MemoryContextSwitchTo(pull->run->context);
	database = get_database_name(MyDatabaseId);
	CommitTransactionCommand();
	MemoryContextSwitchTo(pull->run->context);
	initStringInfo(&prefix);
	pgos_key_component(&prefix, pgos_text_to_utf8(database));
	appendStringInfoChar(&prefix, '/');
	pgos_key_component(&prefix, pgos_text_to_utf8(pull->spec->schema));
	appendStringInfoChar(&prefix, '.');
	pgos_key_component(&prefix, pgos_text_to_utf8(pull->spec->table));
	appendStringInfoChar(&prefix, '/');
	pull->manifest = pgos_manifest_read_newest(pull->run->store, prefix.data, &pull->folder);
	if (pull->manifest == NULL)
		pgos_pull_not_found(pull, prefix.data, "dataset");
}

/* ---------------------------------------------------------------- datasets */

typedef struct PgosPullLookUp
{
	MemoryContext context;
	List		 *objects; /* in the order of their keys */
	int			  next;	   /* first that was not found yet */
	char		 *etag;
} PgosPullLookUp;

static bool
pgos_pull_look_up_callback(const char *key, const PgosObjectInfo *info, void *arg)
{
	PgosPullLookUp *look_up = arg;
	PgosJobObject  *object = list_nth(look_up->objects, look_up->next);
	int				order = strcmp(key, object->key);

	if (order == 0)
	{
		if (info->size != object->bytes)
			ereport(
				ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("object \"%s\" is not what was written", object->url),
				 errdetail("It has " INT64_FORMAT " bytes, the manifest has " INT64_FORMAT ".",
						   info->size, object->bytes),
				 errhint("The object was replaced after the push. Pull another dataset, or push "
						 "again.")));
		/* that of the manifest may be of another place, which the dataset was copied from */
		object->etag =
			info->etag[0] != '\0' ? MemoryContextStrdup(look_up->context, info->etag) : NULL;
		look_up->next++;
	}
	return order <= 0 && look_up->next < list_length(look_up->objects);
}

/* Whether the objects of the manifest are there and as long as they should be, by one listing. */
static void
pgos_pull_look_up(PgosPull *pull)
{
	PgosPullLookUp look_up = {0};
	char		  *prefix;
	size_t		   len;
	ListCell	  *lc;

	if (pull->objects == NIL)
		return;
	look_up.context = CurrentMemoryContext;
	look_up.objects = list_copy(pull->objects);
	list_sort(look_up.objects, pgos_pull_compare_keys);
	prefix = pstrdup(((PgosJobObject *) linitial(look_up.objects))->key);
	len = strlen(prefix);
	foreach (lc, look_up.objects)
	{
		const char *key = ((PgosJobObject *) lfirst(lc))->key;

		while (strncmp(prefix, key, len) != 0)
			len--;
	}
	/* between characters, as the prefix is UTF-8 too */
	while (len > 0 && ((unsigned char) prefix[len] & 0xC0) == 0x80)
		len--;
	prefix[len] = '\0';
	pgos_store_list(pull->run->store, prefix, '\0', pgos_pull_look_up_callback, &look_up);
	if (look_up.next < list_length(look_up.objects))
		pgos_pull_not_found(pull, ((PgosJobObject *) list_nth(look_up.objects, look_up.next))->key,
							"object");
}

/* Options that say how the rows were written: only the manifest knows. */
static void
pgos_pull_check_dataset_options(PgosPull *pull)
{
	static const char *const fixed[] = {"delimiter", "null",	 "quote",
										"escape",	 "encoding", "header"};
	JsonbValue				 v;

	for (int i = 0; i < lengthof(fixed) && pull->spec->options != NULL; i++)
	{
		if (getKeyJsonValueFromContainer(&pull->spec->options->root, fixed[i], strlen(fixed[i]),
										 &v) != NULL &&
			v.type != jbvNull)
			ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
							errmsg("option \"%s\" cannot be given for the dataset \"%s\"", fixed[i],
								   pgos_store_url(pull->run->store, pull->folder)),
							errhint("Leave it out: the manifest says how the rows were written.")));
	}
}

/* COPY's options of the manifest, and those of the call that only say what to do with the values. */
static List *
pgos_pull_dataset_options(PgosPull *pull)
{
	List *options =
		pgos_copy_options_build(true, pull->manifest->format, pull->manifest->copy_options);
	List	 *own = pgos_copy_options_build(true, pull->manifest->format, pull->spec->options);
	ListCell *lc;

	foreach (lc, own)
	{
		DefElem *def = lfirst(lc);

		if (strcmp(def->defname, "freeze") == 0 || strcmp(def->defname, "default") == 0 ||
			strcmp(def->defname, "force_null") == 0 || strcmp(def->defname, "force_not_null") == 0)
			options = lappend(options, def);
	}
	return options;
}

static void
pgos_pull_dataset(PgosPull *pull)
{
	PgosManifest *manifest = pull->manifest;
	const char	 *url = pgos_store_url(pull->run->store, pull->folder);

	if (manifest->relation == NULL)
		ereport(ERROR, (errcode(ERRCODE_WRONG_OBJECT_TYPE),
						errmsg("dataset \"%s\" is of many tables", url),
						errhint("Use objstore_pull_tables.")));
	if (pull->spec->has_format && pull->spec->format != manifest->format)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("argument \"format\" contradicts the manifest of \"%s\"", url),
						errhint("Leave format out: the manifest says what the dataset is.")));
	if (pull->spec->has_compression && pull->spec->compression != manifest->compression)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("argument \"compression\" contradicts the manifest of \"%s\"", url),
						errhint("Leave compression out: the manifest says what the dataset is.")));
	pgos_pull_check_dataset_options(pull);
	pull->objects = manifest->objects;
	pull->total_bytes = manifest->bytes;
	pgos_pull_look_up(pull);
	StartTransactionCommand();
	MemoryContextSwitchTo(pull->run->context);
	pull->manifest_options = pgos_pull_dataset_options(pull);
	CommitTransactionCommand();
	MemoryContextSwitchTo(pull->run->context);
}

void
pgos_pull_resolve(PgosPull *pull)
{
	const char *path = pull->job->path != NULL ? pgos_text_to_utf8(pull->job->path) : NULL;

	if (path == NULL)
		pgos_pull_newest(pull);
	else if (pgos_glob_is_pattern(path))
		pgos_pull_glob(pull, path);
	else if (path[strlen(path) - 1] != '/')
		pgos_pull_one_object(pull, path);
	else
		pgos_pull_folder(pull, path);
	if (pull->manifest != NULL)
		pgos_pull_dataset(pull);
}
