/*
 * store_options.c
 *		Options of servers and user mappings of the foreign-data wrapper `objstore`.
 *
 * One table names every option, the catalog it belongs to, the kinds of store that take it and how its value is
 * read.  The validator checks one catalog entry; pgos_store_options_get() puts a server and a user mapping
 * together.  Values of a user mapping never go into a message.
 *
 * Needs a transaction (catalog look-ups).  Everything raises.
 */
#include "postgres.h"

#include "access/reloptions.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_foreign_server.h"
#include "catalog/pg_user_mapping.h"
#include "commands/defrem.h"
#include "errors.h"
#include "fmgr.h"
#include "foreign/foreign.h"
#include "guc.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "store/store_options.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/syscache.h"

#define S3_MIN_PART_KB (5 * 1024)
#define S3_MAX_PART_KB (5 * 1024 * 1024)
#define MAX_CONCURRENCY 64
#define MIN_TIMEOUT_MS 100
#define MAX_TIMEOUT_MS (24 * 60 * 60 * 1000)
#define DEFAULT_REGION "us-east-1"

typedef struct OptionDef
{
	const char *name;
	Oid			catalog;
	bool		network_only; /* makes no sense for file: */
	void (*set)(PgosStoreOptions *options, const char *name, const char *value);
} OptionDef;

/* ---------------------------------------------------------------- values */

/* A URL with an '@' may have a password before it: such a value is not shown. */
static void
raise_invalid(const char *name, const char *value, const char *detail)
{
	ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					strchr(value, '@') != NULL
						? errmsg("invalid value for option \"%s\"", name)
						: errmsg("invalid value for option \"%s\": \"%s\"", name, value),
					errdetail_internal("%s", detail)));
}

static int
parse_quantity(const char *name, const char *value, int flags, int min, int max, const char *range)
{
	int			result;
	const char *hint = NULL;

	if (!parse_int(value, &result, flags, &hint))
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("invalid value for option \"%s\": \"%s\"", name, value),
						hint != NULL ? errhint("%s", _(hint)) : 0));
	if (result < min || result > max)
		raise_invalid(name, value, psprintf("It must be between %s.", range));
	return result;
}

/* The catalogs hold the database's encoding, keys and URLs are UTF-8. */
static char *
to_utf8(char *text)
{
	return pg_server_to_any(text, strlen(text), PG_UTF8);
}

static void
set_url(PgosStoreOptions *options, const char *name, const char *value)
{
	const char *error = pgos_uri_parse(to_utf8(pstrdup(value)), &options->url);

	if (error != NULL)
		raise_invalid(name, value, error);
	if (options->url.scheme == PGOS_SCHEME_GS)
		ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						errmsg("gs:// stores are not supported yet"),
						errhint("Google Cloud Storage can be used through its S3 interface: a url "
								"s3://bucket/prefix, "
								"the endpoint https://storage.googleapis.com and an HMAC key.")));
}

static void
set_region(PgosStoreOptions *options, const char *name, const char *value)
{
	size_t len = strlen(value);

	/* It becomes part of a host name and of the signature. */
	if (len == 0 || len > 63 || strspn(value, "abcdefghijklmnopqrstuvwxyz0123456789-") != len)
		raise_invalid(name, value, "A region consists of lower-case letters, digits and hyphens.");
	options->region = pstrdup(value);
	options->has_region = true;
}

static void
set_endpoint(PgosStoreOptions *options, const char *name, const char *value)
{
	const char *error = pgos_endpoint_parse(value, &options->endpoint);

	if (error != NULL)
		raise_invalid(name, value, error);
	options->has_endpoint = true;
}

static void
set_url_style(PgosStoreOptions *options, const char *name, const char *value)
{
	if (strcmp(value, "auto") == 0)
		options->url_style = PGOS_URL_AUTO;
	else if (strcmp(value, "path") == 0)
		options->url_style = PGOS_URL_PATH;
	else if (strcmp(value, "virtual") == 0)
		options->url_style = PGOS_URL_VIRTUAL;
	else
		raise_invalid(name, value, "It must be auto, path or virtual.");
}

static void
set_ca_file(PgosStoreOptions *options, const char *name, const char *value)
{
	if (!is_absolute_path(value))
		raise_invalid(name, value, "It must be the absolute path of a file of PEM certificates.");
	options->ca_file = pstrdup(value);
}

static void
set_part_size(PgosStoreOptions *options, const char *name, const char *value)
{
	options->part_size =
		(int64) 1024 * parse_quantity(name, value, GUC_UNIT_KB, 1, S3_MAX_PART_KB, "1kB and 5GB");
}

static void
set_concurrency(PgosStoreOptions *options, const char *name, const char *value)
{
	options->concurrency = parse_quantity(name, value, 0, 1, MAX_CONCURRENCY, "1 and 64");
}

static void
set_connect_timeout(PgosStoreOptions *options, const char *name, const char *value)
{
	options->connect_timeout =
		parse_quantity(name, value, GUC_UNIT_MS, MIN_TIMEOUT_MS, MAX_TIMEOUT_MS, "100ms and 1d");
}

static void
set_request_timeout(PgosStoreOptions *options, const char *name, const char *value)
{
	options->request_timeout =
		parse_quantity(name, value, GUC_UNIT_MS, MIN_TIMEOUT_MS, MAX_TIMEOUT_MS, "100ms and 1d");
}

/* A credential goes into a header line.  Its value is not shown, whatever is wrong with it. */
static char *
check_credential(const char *name, const char *value)
{
	if (value[0] == '\0')
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("option \"%s\" must not be empty", name)));
	for (const char *p = value; *p != '\0'; p++)
	{
		if ((unsigned char) *p <= 0x20 || (unsigned char) *p > 0x7e)
			ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
							errmsg("invalid value for option \"%s\"", name),
							errdetail("It contains a blank, a control character or a character "
									  "that is not ASCII.")));
	}
	return pstrdup(value);
}

static void
set_access_key_id(PgosStoreOptions *options, const char *name, const char *value)
{
	options->access_key_id = check_credential(name, value);
}

static void
set_secret_access_key(PgosStoreOptions *options, const char *name, const char *value)
{
	options->secret_access_key = check_credential(name, value);
}

static void
set_session_token(PgosStoreOptions *options, const char *name, const char *value)
{
	options->session_token = check_credential(name, value);
}

static const OptionDef option_defs[] = {
	{"url", ForeignServerRelationId, false, set_url},
	{"region", ForeignServerRelationId, true, set_region},
	{"endpoint", ForeignServerRelationId, true, set_endpoint},
	{"url_style", ForeignServerRelationId, true, set_url_style},
	{"ca_file", ForeignServerRelationId, true, set_ca_file},
	{"part_size", ForeignServerRelationId, false, set_part_size},
	{"concurrency", ForeignServerRelationId, false, set_concurrency},
	{"connect_timeout", ForeignServerRelationId, true, set_connect_timeout},
	{"request_timeout", ForeignServerRelationId, true, set_request_timeout},
	{"access_key_id", UserMappingRelationId, true, set_access_key_id},
	{"secret_access_key", UserMappingRelationId, true, set_secret_access_key},
	{"session_token", UserMappingRelationId, true, set_session_token}};

/* ---------------------------------------------------------------- sets of options */

static const char *
catalog_noun(Oid catalog)
{
	switch (catalog)
	{
		case ForeignServerRelationId:
			return "server";
		case UserMappingRelationId:
			return "user mapping";
		default:
			return "foreign-data wrapper or foreign table";
	}
}

static const OptionDef *
find_option(const char *name, Oid catalog)
{
	for (int i = 0; i < lengthof(option_defs); i++)
	{
		if (strcmp(option_defs[i].name, name) == 0 &&
			(catalog == InvalidOid || option_defs[i].catalog == catalog))
			return &option_defs[i];
	}
	return NULL;
}

static void
raise_unknown_option(const char *name, Oid catalog)
{
	const char		*names[lengthof(option_defs) + 1];
	int				 n = 0;
	const OptionDef *elsewhere = find_option(name, InvalidOid);
	const char		*nearest;
	char			*hint = NULL;

	for (int i = 0; i < lengthof(option_defs); i++)
	{
		if (option_defs[i].catalog == catalog)
			names[n++] = option_defs[i].name;
	}
	names[n] = NULL;

	nearest = pgos_nearest_word(name, names);
	if (elsewhere != NULL && elsewhere->catalog == UserMappingRelationId)
		hint = psprintf(
			"Options of a server can be read by every role; \"%s\" belongs to the user mapping: "
			"CREATE USER MAPPING FOR ... SERVER ... OPTIONS (%s '...').",
			name, name);
	else if (elsewhere != NULL)
		hint = psprintf("\"%s\" belongs to the server: ALTER SERVER ... OPTIONS (ADD %s '...').",
						name, name);
	else if (nearest != NULL)
		hint = psprintf("Perhaps you meant the option \"%s\".", nearest);

	ereport(ERROR, (errcode(ERRCODE_FDW_INVALID_OPTION_NAME),
					errmsg("invalid option \"%s\" for a %s", name, catalog_noun(catalog)),
					n > 0 ? errdetail("Valid options are: %s.", pgos_join_words(names))
						  : errdetail("There are no valid options in this context."),
					hint != NULL ? errhint("%s", hint) : 0));
}

/* Reads a list of DefElem of one catalog into options. */
static void
read_options(List *list, Oid catalog, PgosStoreOptions *options)
{
	ListCell *cell;

	foreach (cell, list)
	{
		DefElem			*elem = lfirst(cell);
		const OptionDef *def = find_option(elem->defname, catalog);

		if (def == NULL)
			raise_unknown_option(elem->defname, catalog);
		def->set(options, def->name, defGetString(elem));
	}
}

/* What a server's options must be together.  names: the list that they were read from. */
static void
check_server_options(List *list, const PgosStoreOptions *options)
{
	bool	  has_url = false;
	ListCell *cell;

	foreach (cell, list)
	{
		DefElem *elem = lfirst(cell);

		if (strcmp(elem->defname, "url") == 0)
			has_url = true;
	}
	if (!has_url)
		ereport(ERROR, (errcode(ERRCODE_FDW_DYNAMIC_PARAMETER_VALUE_NEEDED),
						errmsg("option \"url\" of the server is missing"),
						errhint("Set it to s3://bucket/prefix or file:///directory, for example "
								"OPTIONS (url 's3://bucket/prefix').")));

	if (options->url.scheme == PGOS_SCHEME_FILE)
	{
		foreach (cell, list)
		{
			DefElem *elem = lfirst(cell);

			if (find_option(elem->defname, ForeignServerRelationId)->network_only)
				ereport(ERROR,
						(errcode(ERRCODE_FDW_INVALID_OPTION_NAME),
						 errmsg("option \"%s\" makes no sense for a file: store", elem->defname),
						 errhint("Remove the option, or set url to s3://bucket/prefix.")));
		}
	}
	else if (options->part_size != 0 && options->part_size < (int64) S3_MIN_PART_KB * 1024)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("option \"part_size\" is too small for an s3:// store"),
						errdetail("S3 accepts parts from 5MB on.")));
}

PG_FUNCTION_INFO_V1(objstore_fdw_validator);

/*
 * objstore_fdw_validator(options text[], catalog oid): called by CREATE and ALTER with all options of the
 * catalog entry.
 */
Datum
objstore_fdw_validator(PG_FUNCTION_ARGS)
{
	List			*list = PG_ARGISNULL(0) ? NIL : untransformRelOptions(PG_GETARG_DATUM(0));
	Oid				 catalog = PG_GETARG_OID(1);
	PgosStoreOptions options = {0};

	read_options(list, catalog, &options);
	if (catalog != ForeignServerRelationId)
		PG_RETURN_VOID();

	check_server_options(list, &options);
	if (options.url.scheme == PGOS_SCHEME_FILE && !superuser())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied to create or change a file: store"),
				 errdetail("Only a superuser may give access to the server's file system.")));
	/* or whoever owns a server could find out which files there are */
	if (options.ca_file != NULL && !has_privs_of_role(GetUserId(), ROLE_PG_READ_SERVER_FILES))
		ereport(ERROR, (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
						errmsg("permission denied to set option \"ca_file\""),
						errdetail("It names a file on the server: only a superuser or a member of "
								  "pg_read_server_files may set it.")));
	PG_RETURN_VOID();
}

/* ---------------------------------------------------------------- a server with a user's mapping */

/* GetUserMapping() says less when there is none. */
static UserMapping *
get_user_mapping(ForeignServer *server, Oid userid)
{
	if (!SearchSysCacheExists2(USERMAPPINGUSERSERVER, ObjectIdGetDatum(userid),
							   ObjectIdGetDatum(server->serverid)) &&
		!SearchSysCacheExists2(USERMAPPINGUSERSERVER, ObjectIdGetDatum(InvalidOid),
							   ObjectIdGetDatum(server->serverid)))
	{
		const char *user = quote_identifier(GetUserNameFromId(userid, false));

		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("user mapping not found for user %s and server \"%s\"", user,
						server->servername),
				 errhint("CREATE USER MAPPING FOR %s SERVER %s OPTIONS (access_key_id '...', "
						 "secret_access_key '...');",
						 user, quote_identifier(server->servername))));
	}
	return GetUserMapping(userid, server->serverid);
}

static void
require_credential(const char *name, const char *value, ForeignServer *server, Oid userid)
{
	if (value != NULL)
		return;
	ereport(ERROR, (errcode(ERRCODE_UNDEFINED_OBJECT),
					errmsg("option \"%s\" is missing in the user mapping for server \"%s\"", name,
						   server->servername),
					errhint("ALTER USER MAPPING FOR %s SERVER %s OPTIONS (ADD %s '...');",
							quote_identifier(GetUserNameFromId(userid, false)),
							quote_identifier(server->servername), name)));
}

void
pgos_store_options_get(Oid serverid, Oid userid, PgosStoreOptions *options)
{
	ForeignServer *server = GetForeignServer(serverid);
	UserMapping	  *mapping;

	memset(options, 0, sizeof(*options));
	options->server_name = pstrdup(server->servername);
	read_options(server->options, ForeignServerRelationId, options);
	check_server_options(server->options, options);

	if (options->region == NULL)
		options->region = pstrdup(DEFAULT_REGION);
	if (options->part_size == 0)
		options->part_size = (int64) pgos_part_size_kb * 1024;
	if (options->concurrency == 0)
		options->concurrency = pgos_concurrency;
	if (options->connect_timeout == 0)
		options->connect_timeout = pgos_connect_timeout;
	if (options->request_timeout == 0)
		options->request_timeout = pgos_request_timeout;

	if (options->url.scheme == PGOS_SCHEME_FILE)
		return;
	options->part_size = Max(options->part_size, (int64) S3_MIN_PART_KB * 1024);
	mapping = get_user_mapping(server, userid);
	read_options(mapping->options, UserMappingRelationId, options);
	require_credential("access_key_id", options->access_key_id, server, mapping->userid);
	require_credential("secret_access_key", options->secret_access_key, server, mapping->userid);
}
