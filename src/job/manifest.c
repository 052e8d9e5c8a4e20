/*
 * manifest.c
 *		Writing and reading of manifests.
 *
 * Runs in workers; raises.  Results are in the current memory context.  A manifest comes from the store, which
 * others may write to: everything taken from it is checked here or by those it is handed to.
 */
#include "postgres.h"

#include "compat.h"
#include "access/xlog.h"
#include "copy/copy_options.h"
#include "copy/ddl.h"
#include "core/key.h"
#include "job/manifest.h"
#include "job/run.h"
#include "job/spec.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/json.h"
#include "utils/numeric.h"
#include "utils/timestamp.h"

#define PGOS_MANIFEST_VERSION 1

static const char *const pgos_format_names[] = {"csv", "text", "binary", NULL};
static const char *const pgos_compression_names[] = {"none", "zstd", "gzip", "lz4", NULL};

static void
pgos_json_member(StringInfo out, const char *name, const char *value)
{
	escape_json(out, name);
	appendStringInfoString(out, ": ");
	if (value != NULL)
		escape_json(out, value);
	else
		appendStringInfoString(out, "null");
	appendStringInfoString(out, ",\n");
}

/* ISO 8601 in UTC, whatever the session's settings. */
static char *
pgos_utc_text(TimestampTz when)
{
	struct pg_tm tm;
	fsec_t		 fsec;

	if (timestamp2tm(when, NULL, &tm, &fsec, NULL, NULL) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE), errmsg("timestamp out of range")));
	return psprintf("%04d-%02d-%02dT%02d:%02d:%02d.%06dZ", tm.tm_year, tm.tm_mon, tm.tm_mday,
					tm.tm_hour, tm.tm_min, tm.tm_sec, (int) fsec);
}

/* The COPY options of the job as JSON, with what they default to made plain. */
static char *
pgos_manifest_copy_options(const PgosJob *job, const PgosManifestInput *input)
{
	StringInfoData out;
	JsonbIterator *it;
	JsonbValue	   v;

	initStringInfo(&out);
	appendStringInfo(&out, "{\"header\": %s, \"encoding\": ",
					 pgos_copy_options_header(input->copy_options) ? "true" : "false");
	escape_json(&out, pgos_copy_options_encoding(input->copy_options));
	if (job->spec->options != NULL)
	{
		it = JsonbIteratorInit(&job->spec->options->root);
		(void) JsonbIteratorNext(&it, &v, false);
		while (JsonbIteratorNext(&it, &v, true) == WJB_KEY)
		{
			/* what a reader must know: force_quote is none of it */
			static const char *const kept[] = {"delimiter", "null", "quote", "escape", NULL};
			char					*name = pnstrdup(v.val.string.val, v.val.string.len);

			(void) JsonbIteratorNext(&it, &v, true);
			for (int i = 0; kept[i] != NULL; i++)
			{
				if (strcmp(name, kept[i]) == 0 && v.type == jbvString)
				{
					appendStringInfoString(&out, ", ");
					escape_json(&out, name);
					appendStringInfoString(&out, ": ");
					escape_json(&out, pnstrdup(v.val.string.val, v.val.string.len));
				}
			}
		}
	}
	appendStringInfoChar(&out, '}');
	return out.data;
}

static void
pgos_manifest_put_columns(StringInfo out, List *columns)
{
	const char *separator = "";
	ListCell   *lc;

	appendStringInfoString(out, "\"columns\": [");
	foreach (lc, columns)
	{
		appendStringInfoString(out, separator);
		escape_json(out, lfirst(lc));
		separator = ", ";
	}
	appendStringInfoChar(out, ']');
}

static void
pgos_manifest_put_tables(StringInfo out, List *tables, List *objects)
{
	const char *separator = "";
	ListCell   *lc;

	appendStringInfoString(out, "\"tables\": [");
	foreach (lc, tables)
	{
		PgosManifestTable *table = lfirst(lc);
		int				   index = 0;

		while (list_nth(objects, index) != table->object)
			index++;
		appendStringInfo(out, "%s\n{", separator);
		pgos_manifest_put_columns(out, table->columns);
		appendStringInfo(out,
						 ", \"rows\": " INT64_FORMAT ", \"object\": %d, \"offset\": " INT64_FORMAT
						 ", \"bytes\": " INT64_FORMAT ",\n \"relation\": %s}",
						 table->rows, index, table->offset, table->bytes, table->definition);
		separator = ",";
	}
	appendStringInfoString(out, "\n],\n");
}

StringInfo
pgos_manifest_text(const PgosJob *job, const PgosManifestInput *input, const PgosJobResult *result)
{
	StringInfo	out = makeStringInfo();
	StringInfo	utf8 = makeStringInfo();
	char	   *text;
	ListCell   *lc;
	const char *separator;

	appendStringInfo(out, "{\n\"pgobjstore\": %d,\n", PGOS_MANIFEST_VERSION);
	appendStringInfo(out, "\"system_identifier\": \"" UINT64_FORMAT "\",\n", GetSystemIdentifier());
	appendStringInfo(out, "\"job_id\": " INT64_FORMAT ",\n", job->job_id);
	pgos_json_member(out, "enqueued_at", pgos_utc_text(job->enqueued_at));
	pgos_json_member(out, "started_at", pgos_utc_text(input->started_at));
	pgos_json_member(out, "finished_at", pgos_utc_text(GetCurrentTimestamp()));
	pgos_json_member(out, "server_version", PG_VERSION);
	pgos_json_member(out, "database", input->database);
	pgos_json_member(out, "server_encoding", GetDatabaseEncodingName());
	appendStringInfo(out, "\"snapshot_lsn\": \"%X/%X\",\n", LSN_FORMAT_ARGS(input->lsn));
	pgos_json_member(out, "format", pgos_format_names[job->spec->format]);
	pgos_json_member(out, "compression", pgos_compression_names[job->spec->compression]);
	appendStringInfo(out, "\"copy_options\": %s,\n", pgos_manifest_copy_options(job, input));
	if (input->tables != NIL)
		pgos_manifest_put_tables(out, input->tables, result->objects);
	else
	{
		pgos_manifest_put_columns(out, input->columns);
		appendStringInfo(out, ",\n\"relation\": %s,\n", input->relation);
	}
	appendStringInfo(out,
					 "\"rows\": " INT64_FORMAT ",\n\"raw_bytes\": " INT64_FORMAT
					 ",\n\"stored_bytes\": " INT64_FORMAT ",\n\"objects\": [",
					 result->rows, result->raw_bytes, result->stored_bytes);
	separator = "\n";
	foreach (lc, result->objects)
	{
		PgosJobObject *object = lfirst(lc);
		char		  *folder = pgos_text_to_utf8(job->path);
		char		  *name = object->key + strlen(folder);

		appendStringInfoString(out, separator);
		appendStringInfoString(out, "{\"key\": ");
		escape_json(out, pgos_text_from_utf8(name, strlen(name)));
		appendStringInfo(out,
						 ", \"bytes\": " INT64_FORMAT ", \"rows\": " INT64_FORMAT
						 ", \"raw_bytes\": " INT64_FORMAT ", \"crc32c\": \"%08x\", \"etag\": ",
						 object->bytes, object->rows, object->raw_bytes, object->crc);
		escape_json(out, object->etag ? object->etag : "");
		appendStringInfo(out, ", \"parts\": %d}", object->parts);
		separator = ",\n";
	}
	appendStringInfoString(out, "\n]\n}\n");

	text = pgos_text_to_utf8(out->data);
	/* names in a SQL_ASCII database may be anything; JSON may not */
	if (!pg_verify_mbstr(PG_UTF8, text, strlen(text), true))
		ereport(ERROR,
				(errcode(ERRCODE_CHARACTER_NOT_IN_REPERTOIRE),
				 errmsg("the definition of %s is not valid UTF-8, so no manifest can be written",
						job->relation),
				 errdetail("The database has the encoding SQL_ASCII and a name, default or "
						   "comment of the relation holds other bytes."),
				 errhint("Rename what is not ASCII, or push to a path that does not end in "
						 "\"/\": a single object has no manifest.")));
	appendStringInfoString(utf8, text);
	return utf8;
}

static void
pgos_manifest_corrupt(PgosStore *store, const char *key, const char *what) pg_attribute_noreturn();

static void
pgos_manifest_corrupt(PgosStore *store, const char *key, const char *what)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("manifest \"%s\" cannot be used", pgos_store_url(store, key)),
			 errdetail("%s", what),
			 errhint("It was damaged, or written by something else. Pull the objects one by one "
					 "with path => '...' into a table that exists.")));
	pg_unreachable();
}

static int
pgos_manifest_word(PgosStore *store, const char *key, Jsonb *json, const char *member,
				   const char *const *list)
{
	char *word = pgos_json_string(json, member);

	for (int i = 0; word != NULL && list[i] != NULL; i++)
	{
		if (strcmp(word, list[i]) == 0)
			return i;
	}
	pgos_manifest_corrupt(store, key, psprintf("Member \"%s\" is missing or not known.", member));
}

/* A member that is a whole number >= 0. */
static int64
pgos_manifest_number(PgosStore *store, const char *key, Jsonb *json, const char *member)
{
	JsonbValue v;

	if (getKeyJsonValueFromContainer(&json->root, member, strlen(member), &v) != NULL &&
		v.type == jbvNumeric)
	{
		char *text =
			DatumGetCString(DirectFunctionCall1(numeric_out, NumericGetDatum(v.val.numeric)));
		char	 *end;
		long long number;

		errno = 0;
		number = strtoll(text, &end, 10);
		if (errno == 0 && *end == '\0' && number >= 0)
			return (int64) number;
	}
	pgos_manifest_corrupt(store, key, psprintf("Member \"%s\" is missing or no number.", member));
}

static Jsonb *
pgos_manifest_member(PgosStore *store, const char *key, Jsonb *json, const char *member,
					 JsonbIteratorToken kind)
{
	JsonbValue v;

	if (getKeyJsonValueFromContainer(&json->root, member, strlen(member), &v) != NULL &&
		v.type == jbvBinary &&
		(kind == WJB_BEGIN_OBJECT ? JsonContainerIsObject(v.val.binary.data)
								  : JsonContainerIsArray(v.val.binary.data)))
		return JsonbValueToJsonb(&v);
	pgos_manifest_corrupt(store, key, psprintf("Member \"%s\" is missing.", member));
}

static PgosJobObject *
pgos_manifest_object(PgosStore *store, const char *key, const char *folder, Jsonb *json)
{
	PgosJobObject *object = palloc0(sizeof(PgosJobObject));
	char		  *name = pgos_json_string(json, "key");
	char		  *crc = pgos_json_string(json, "crc32c");
	char		  *etag = pgos_json_string(json, "etag");
	char		  *end = NULL;

	if (name == NULL || crc == NULL || strlen(crc) != 8)
		pgos_manifest_corrupt(store, key, "An object has no key or no checksum.");
	object->key = psprintf("%s%s", folder, pgos_text_to_utf8(name));
	if (pgos_key_check(object->key) != NULL)
		pgos_manifest_corrupt(store, key, "An object's key points out of the dataset.");
	object->url = pgos_store_url(store, object->key);
	object->bytes = pgos_manifest_number(store, key, json, "bytes");
	object->rows = pgos_manifest_number(store, key, json, "rows");
	object->raw_bytes = pgos_manifest_number(store, key, json, "raw_bytes");
	object->parts = (int) pgos_manifest_number(store, key, json, "parts");
	object->crc = (uint32) strtoul(crc, &end, 16);
	if (*end != '\0')
		pgos_manifest_corrupt(store, key, "An object's checksum is not hexadecimal.");
	object->has_crc = true;
	object->etag = etag != NULL && etag[0] != '\0' ? etag : NULL;
	return object;
}

static List *
pgos_manifest_columns(PgosStore *store, const char *key, Jsonb *json)
{
	Jsonb		  *list = pgos_manifest_member(store, key, json, "columns", WJB_BEGIN_ARRAY);
	JsonbIterator *it = JsonbIteratorInit(&list->root);
	List		  *columns = NIL;
	JsonbValue	   v;

	(void) JsonbIteratorNext(&it, &v, false);
	while (JsonbIteratorNext(&it, &v, true) == WJB_ELEM)
	{
		if (v.type != jbvString)
			pgos_manifest_corrupt(store, key, "A column has no name.");
		columns = lappend(columns, pnstrdup(v.val.string.val, v.val.string.len));
	}
	return columns;
}

/* The member "tables" of a manifest whose objects have been read. */
static List *
pgos_manifest_tables(PgosStore *store, const char *key, PgosManifest *manifest)
{
	Jsonb *list = pgos_manifest_member(store, key, manifest->json, "tables", WJB_BEGIN_ARRAY);
	JsonbIterator *it = JsonbIteratorInit(&list->root);
	List		  *tables = NIL;
	JsonbValue	   v;

	(void) JsonbIteratorNext(&it, &v, false);
	while (JsonbIteratorNext(&it, &v, true) == WJB_ELEM)
	{
		PgosManifestTable *table = palloc0(sizeof(PgosManifestTable));
		Jsonb			  *json;
		int64			   index;

		if (v.type != jbvBinary || !JsonContainerIsObject(v.val.binary.data))
			pgos_manifest_corrupt(store, key, "A table is not described.");
		json = JsonbValueToJsonb(&v);
		table->relation = pgos_manifest_member(store, key, json, "relation", WJB_BEGIN_OBJECT);
		table->columns = pgos_manifest_columns(store, key, json);
		table->rows = pgos_manifest_number(store, key, json, "rows");
		table->offset = pgos_manifest_number(store, key, json, "offset");
		table->bytes = pgos_manifest_number(store, key, json, "bytes");
		index = pgos_manifest_number(store, key, json, "object");
		if (index >= list_length(manifest->objects))
			pgos_manifest_corrupt(store, key, "A table is in an object that is not listed.");
		table->object = list_nth(manifest->objects, (int) index);
		if (table->offset + table->bytes > table->object->bytes)
			pgos_manifest_corrupt(store, key, "A table goes on behind the end of its object.");
		tables = lappend(tables, table);
	}
	return tables;
}

/* The text as JSON; what is none is a damaged manifest, not the user's bad input. */
static Jsonb *
pgos_manifest_parse(PgosStore *store, const char *key, char *text)
{
	MemoryContext context = CurrentMemoryContext;
	Jsonb *volatile json = NULL;

	PG_TRY();
	{
		json = DatumGetJsonbP(DirectFunctionCall1(jsonb_in, CStringGetDatum(text)));
	}
	PG_CATCH();
	{
		ErrorData *error;

		/* another error takes its place: whatever this one has left is cleared with that */
		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		if (error->sqlerrcode == ERRCODE_QUERY_CANCELED ||
			error->sqlerrcode == ERRCODE_ADMIN_SHUTDOWN)
			PG_RE_THROW();
		FlushErrorState();
		pgos_manifest_corrupt(
			store, key,
			psprintf("It is not JSON: %s.", error->detail ? error->detail : error->message));
	}
	PG_END_TRY();
	return json;
}

PgosManifest *
pgos_manifest_read(PgosStore *store, const char *folder)
{
	char		  *key = psprintf("%s%s", folder, PGOS_MANIFEST_NAME);
	PgosManifest  *manifest;
	PgosObjectInfo info;
	size_t		   len;
	char		  *text = pgos_store_read(store, key, PGOS_MANIFEST_MAX_BYTES, &len, &info);
	Jsonb		  *list;
	JsonbIterator *it;
	JsonbValue	   v;

	if (text == NULL)
		return NULL;
	if (strlen(text) != len || !pg_verify_mbstr(PG_UTF8, text, (int) len, true))
		pgos_manifest_corrupt(store, key, "It is not UTF-8 text.");
	manifest = palloc0(sizeof(PgosManifest));
	manifest->json = pgos_manifest_parse(store, key, pgos_text_from_utf8(text, len));
	if (!JB_ROOT_IS_OBJECT(manifest->json))
		pgos_manifest_corrupt(store, key, "It is not a JSON object.");
	if (pgos_manifest_number(store, key, manifest->json, "pgobjstore") > PGOS_MANIFEST_VERSION)
		ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						errmsg("manifest \"%s\" was written by a newer version of pgobjstore",
							   pgos_store_url(store, key)),
						errhint("Update the extension on this server.")));
	manifest->format =
		(PgosFormat) pgos_manifest_word(store, key, manifest->json, "format", pgos_format_names);
	manifest->compression = (PgosCompression) pgos_manifest_word(
		store, key, manifest->json, "compression", pgos_compression_names);
	manifest->copy_options =
		pgos_manifest_member(store, key, manifest->json, "copy_options", WJB_BEGIN_OBJECT);
	manifest->rows = pgos_manifest_number(store, key, manifest->json, "rows");

	list = pgos_manifest_member(store, key, manifest->json, "objects", WJB_BEGIN_ARRAY);
	it = JsonbIteratorInit(&list->root);
	(void) JsonbIteratorNext(&it, &v, false);
	while (JsonbIteratorNext(&it, &v, true) == WJB_ELEM)
	{
		PgosJobObject *object;

		if (v.type != jbvBinary || !JsonContainerIsObject(v.val.binary.data))
			pgos_manifest_corrupt(store, key, "An object is not described.");
		object = pgos_manifest_object(store, key, folder, JsonbValueToJsonb(&v));
		manifest->bytes += object->bytes;
		manifest->objects = lappend(manifest->objects, object);
	}
	if (getKeyJsonValueFromContainer(&manifest->json->root, "tables", strlen("tables"), &v) != NULL)
		manifest->tables = pgos_manifest_tables(store, key, manifest);
	else
	{
		manifest->relation =
			pgos_manifest_member(store, key, manifest->json, "relation", WJB_BEGIN_OBJECT);
		manifest->columns = pgos_manifest_columns(store, key, manifest->json);
	}
	pfree(text);
	return manifest;
}

static bool
pgos_manifest_collect_folder(const char *key, const PgosObjectInfo *info, void *arg)
{
	List **folders = arg;

	if (key[strlen(key) - 1] == '/')
		*folders = lappend(*folders, pstrdup(key));
	return true;
}

/* The number of the job at the end of "...Z-<job>/", or -1. */
static int64
pgos_manifest_folder_job(const char *folder)
{
	const char *dash = strrchr(folder, '-');

	return dash == NULL ? -1 : strtoll(dash + 1, NULL, 10);
}

/* By time, then by job: as the folders were made. */
static int
pgos_manifest_compare_folders(const ListCell *a, const ListCell *b)
{
	const char *fa = lfirst(a);
	const char *fb = lfirst(b);
	const char *da = strrchr(fa, '-');
	const char *db = strrchr(fb, '-');
	size_t		la = da != NULL ? (size_t) (da - fa) : strlen(fa);
	size_t		lb = db != NULL ? (size_t) (db - fb) : strlen(fb);
	int			cmp = memcmp(fa, fb, Min(la, lb));
	int64		ja;
	int64		jb;

	if (cmp == 0 && la != lb)
		cmp = la < lb ? -1 : 1;
	if (cmp != 0)
		return cmp;
	ja = pgos_manifest_folder_job(fa);
	jb = pgos_manifest_folder_job(fb);
	return ja < jb ? -1 : ja > jb ? 1 : 0;
}

PgosManifest *
pgos_manifest_read_newest(PgosStore *store, const char *prefix, char **folder)
{
	List		 *folders = NIL;
	PgosManifest *manifest = NULL;

	pgos_store_list(store, prefix, '/', pgos_manifest_collect_folder, &folders);
	list_sort(folders, pgos_manifest_compare_folders);
	for (int i = list_length(folders) - 1; i >= 0 && manifest == NULL; i--)
	{
		manifest = pgos_manifest_read(store, list_nth(folders, i));
		if (manifest != NULL)
			*folder = list_nth(folders, i);
	}
	return manifest;
}

bool
pgos_manifest_is_of_job(PgosManifest *manifest, const PgosJob *job)
{
	char	  *system = pgos_json_string(manifest->json, "system_identifier");
	char	  *enqueued = pgos_json_string(manifest->json, "enqueued_at");
	JsonbValue v;
	Datum	   id = DirectFunctionCall1(int8_numeric, Int64GetDatum(job->job_id));

	return system != NULL && strcmp(system, psprintf(UINT64_FORMAT, GetSystemIdentifier())) == 0 &&
		   enqueued != NULL && strcmp(enqueued, pgos_utc_text(job->enqueued_at)) == 0 &&
		   getKeyJsonValueFromContainer(&manifest->json->root, "job_id", strlen("job_id"), &v) !=
			   NULL &&
		   v.type == jbvNumeric &&
		   DatumGetBool(DirectFunctionCall2(numeric_eq, NumericGetDatum(v.val.numeric), id));
}
