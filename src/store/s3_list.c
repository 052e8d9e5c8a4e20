/*
 * s3_list.c
 *		Listings: the objects below a prefix, the open uploads below a prefix.
 *
 * PgosListPage by page (1,000 entries), each page freed before the next one is asked for.  Keys of objects come
 * percent-encoded (encoding-type=url), because XML cannot hold every byte that a key can.
 */
#include "postgres.h"

#include "core/percent.h"
#include "lib/stringinfo.h"
#include "nodes/pg_list.h"
#include "store/s3_internal.h"
#include "datatype/timestamp.h"
#include "utils/datetime.h"
#include "utils/memutils.h"

/* 1,000 entries of the longest keys, encoded threefold, with room for everything else. */
#define MAX_PAGE (8 * 1024 * 1024)

/* A server that goes on for ever ends here: 100 million keys. */
#define MAX_PAGES 100000

typedef struct PgosListPage
{
	const char *root; /* name of the element expected */
	PgosXml	   *xml;  /* in the call's context */
} PgosListPage;

static bool
decide_page(PgosS3Call *call, const PgosHttpReply *reply, PgosHttpVerdict *verdict)
{
	PgosListPage *page = call->arg;
	MemoryContext old;

	if (reply->fault != PGOS_HTTP_FAULT_NONE || reply->status != 200)
		return false;
	old = MemoryContextSwitchTo(call->base.context);
	page->xml = pgos_xml_parse(reply->body, reply->body_len);
	MemoryContextSwitchTo(old);
	*verdict = PGOS_HTTP_DONE;
	if (page->xml == NULL || strcmp(page->xml->name, page->root) != 0)
	{
		call->sqlstate = ERRCODE_PROTOCOL_VIOLATION;
		call->reason = "the answer is no listing";
		*verdict = PGOS_HTTP_RETRY;
	}
	return true;
}

/* The text as it is in the store: listings that say so are encoded. */
static char *
decode(const PgosXml *page, const char *text)
{
	StringInfoData out;

	initStringInfo(&out);
	if (pg_strcasecmp(pgos_xml_text(page, "EncodingType"), "url") != 0 ||
		!pgos_percent_decode(&out, text, true))
		appendStringInfoString(&out, text);
	return out.data;
}

static void
raise_endless(PgosStore *store)
{
	ereport(ERROR, (errcode(ERRCODE_PROTOCOL_VIOLATION),
					errmsg("could not list objects on server \"%s\": the listing does not end",
						   store->options.server_name)));
}

/* ---------------------------------------------------------------- objects */

/* "2024-05-06T07:08:09.000Z" as seconds since 1970; 0 for anything else. */
static int64
parse_time(const char *text)
{
	int year, month, day, hour, minute, second;

	if (sscanf(text, "%4d-%2d-%2dT%2d:%2d:%2d", &year, &month, &day, &hour, &minute, &second) !=
			6 ||
		month < 1 || month > 12 || day < 1 || day > 31 || year < 1970)
		return 0;
	return ((int64) date2j(year, month, day) - UNIX_EPOCH_JDATE) * SECS_PER_DAY +
		   hour * SECS_PER_HOUR + minute * SECS_PER_MINUTE + second;
}

typedef struct Entry
{
	char		  *key; /* whole, decoded */
	PgosObjectInfo info;
} Entry;

static int
compare_entries(const void *a, const void *b)
{
	return strcmp(((const Entry *) a)->key, ((const Entry *) b)->key);
}

static void
add_object(Entry *entry, const PgosXml *page, const PgosXml *contents)
{
	const char *etag = pgos_xml_text(contents, "ETag");

	entry->key = decode(page, pgos_xml_text(contents, "Key"));
	entry->info.size = strtoll(pgos_xml_text(contents, "Size"), NULL, 10);
	strlcpy(entry->info.etag, etag, sizeof(entry->info.etag));
	entry->info.mtime = parse_time(pgos_xml_text(contents, "LastModified"));
}

/* The page's entries, keys and folded prefixes in one order. */
static Entry *
read_page(const PgosXml *page, int *count)
{
	Entry *entries;
	int	   n = 0;

	for (const PgosXml *child = page->children; child != NULL; child = child->next)
		n++;
	entries = palloc0(Max(n, 1) * sizeof(Entry));
	n = 0;
	for (const PgosXml *child = page->children; child != NULL; child = child->next)
	{
		if (strcmp(child->name, "Contents") == 0)
			add_object(&entries[n++], page, child);
		else if (strcmp(child->name, "CommonPrefixes") == 0)
			entries[n++].key = decode(page, pgos_xml_text(child, "Prefix"));
	}
	qsort(entries, n, sizeof(Entry), compare_entries);
	*count = n;
	return entries;
}

/*
 * Hands the page's entries over, in the caller's memory context.  False when the callback has enough.
 */
static bool
report_page(PgosS3Call *call, const PgosXml *page, PgosListCallback callback, void *arg)
{
	PgosS3		 *s3 = call->base.store->state;
	size_t		  skip = strlen(s3->key_prefix);
	MemoryContext old = MemoryContextSwitchTo(call->base.context);
	int			  n;
	Entry		 *entries = read_page(page, &n);

	MemoryContextSwitchTo(old);
	for (int i = 0; i < n; i++)
	{
		const char *key = entries[i].key;

		/* Also the prefix itself can be a key: other tools make such "folders". */
		if (strncmp(key, s3->key_prefix, skip) != 0 || key[skip] == '\0')
			continue;
		if (!callback(key + skip, &entries[i].info, arg))
			return false;
	}
	return true;
}

void
pgos_s3_list(PgosStore *store, const char *key_prefix, char delimiter, PgosListCallback callback,
			 void *arg)
{
	PgosS3 *s3 = store->state;
	char   *prefix = psprintf("%s%s", s3->key_prefix, key_prefix);
	char	delimiter_text[2] = {delimiter, '\0'};
	char   *token = NULL;
	bool	more = true;

	for (int pages = 0; more; pages++)
	{
		PgosS3Call	*call = pgos_s3_call_create(store, PGOS_HTTP_GET, NULL, "list \"%s\" on");
		PgosListPage page = {"ListBucketResult", NULL};
		const char	*next;

		if (pages >= MAX_PAGES)
			raise_endless(store);
		pgos_s3_call_query(call, "list-type", "2");
		pgos_s3_call_query(call, "encoding-type", "url");
		pgos_s3_call_query(call, "max-keys", "1000");
		pgos_s3_call_query(call, "prefix", prefix);
		if (delimiter != '\0')
			pgos_s3_call_query(call, "delimiter", delimiter_text);
		if (token != NULL)
			pgos_s3_call_query(call, "continuation-token", token);
		call->body_max = MAX_PAGE;
		call->arg = &page;
		call->decide = decide_page;
		pgos_s3_call_run_or_raise(call);

		next = pgos_xml_text(page.xml, "NextContinuationToken");
		more = strcmp(pgos_xml_text(page.xml, "IsTruncated"), "true") == 0;
		if (more && (next[0] == '\0' || (token != NULL && strcmp(token, next) == 0)))
			raise_endless(store);
		if (token != NULL)
			pfree(token);
		token = pstrdup(next);

		more = report_page(call, page.xml, callback, arg) && more;
		pgos_request_cancel(&call->base);
	}
	pfree(prefix);
	if (token != NULL)
		pfree(token);
}

/* ---------------------------------------------------------------- open uploads */

typedef struct OpenUpload
{
	char *key; /* relative to the store's prefix */
	char *id;
} OpenUpload;

int
pgos_s3_upload_abort_all(PgosStore *store, const char *key_prefix)
{
	PgosS3 *s3 = store->state;
	char   *prefix = psprintf("%s%s", s3->key_prefix, key_prefix);
	size_t	skip = strlen(s3->key_prefix);
	bool	one_key = key_prefix[0] != '\0' && key_prefix[strlen(key_prefix) - 1] != '/';
	char   *key_marker = pstrdup("");
	char   *id_marker = pstrdup("");
	bool	more = true;
	int		aborted = 0;

	for (int pages = 0; more; pages++)
	{
		PgosS3Call *call =
			pgos_s3_call_create(store, PGOS_HTTP_GET, NULL, "list uploads of \"%s\" on");
		PgosListPage page = {"ListMultipartUploadsResult", NULL};
		char		*next_key;
		char		*next_id;

		if (pages >= MAX_PAGES)
			raise_endless(store);
		/* Not encoded: some stores then encode the keys, but do not say so. */
		pgos_s3_call_query(call, "uploads", "");
		pgos_s3_call_query(call, "max-uploads", "1000");
		pgos_s3_call_query(call, "prefix", prefix);
		if (key_marker[0] != '\0')
			pgos_s3_call_query(call, "key-marker", key_marker);
		if (id_marker[0] != '\0')
			pgos_s3_call_query(call, "upload-id-marker", id_marker);
		call->body_max = MAX_PAGE;
		call->arg = &page;
		call->decide = decide_page;
		pgos_s3_call_run_or_raise(call);

		for (const PgosXml *child = page.xml->children; child != NULL; child = child->next)
		{
			char *key;

			if (strcmp(child->name, "Upload") != 0)
				continue;
			key = decode(page.xml, pgos_xml_text(child, "Key"));
			/* A server that does not filter must not make us remove what is not ours. */
			if (strncmp(key, prefix, strlen(prefix)) == 0 && key[skip] != '\0' &&
				!(one_key && key[strlen(prefix)] != '\0'))
			{
				if (pgos_s3_abort(store, key + skip, pgos_xml_text(child, "UploadId")))
					aborted++;
			}
			pfree(key);
		}

		more = strcmp(pgos_xml_text(page.xml, "IsTruncated"), "true") == 0;
		next_key = decode(page.xml, pgos_xml_text(page.xml, "NextKeyMarker"));
		next_id = pstrdup(pgos_xml_text(page.xml, "NextUploadIdMarker"));
		if (more && strcmp(next_key, key_marker) == 0 && strcmp(next_id, id_marker) == 0)
			raise_endless(store);
		pfree(key_marker);
		pfree(id_marker);
		key_marker = next_key;
		id_marker = next_id;
		pgos_request_cancel(&call->base);
	}
	pfree(key_marker);
	pfree(id_marker);
	pfree(prefix);
	return aborted;
}
