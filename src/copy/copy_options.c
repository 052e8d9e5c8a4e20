/*
 * copy_options.c
 *		COPY's options for a stream, and the settings that are pinned while COPY runs.
 *
 * Runs in backends and workers; may raise.
 */
#include "postgres.h"

#include "commands/copy.h"
#include "commands/defrem.h"
#include "compat.h"
#include "copy/copy_options.h"
#include "mb/pg_wchar.h"
#include "nodes/makefuncs.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/numeric.h"

const char *const pgos_copy_to_options[] = {
	"header", "delimiter", "null", "quote", "escape", "force_quote", "encoding", NULL,
};

const char *const pgos_copy_from_options[] = {
	"header",	  "delimiter",		"null",		"quote",  "escape",
	"force_null", "force_not_null", "encoding", "freeze", PGOS_COMPAT_COPY_FROM_OPTIONS NULL,
};

static bool
pgos_word_in_list(const char *word, const char *const *list)
{
	for (; *list != NULL; list++)
	{
		if (strcmp(word, *list) == 0)
			return true;
	}
	return false;
}

/* One JSON value as the argument of a DefElem. */
static Node *
pgos_copy_option_value(const char *name, const JsonbValue *value)
{
	switch (value->type)
	{
		case jbvBool:
			return (Node *) makeString(value->val.boolean ? "true" : "false");
		case jbvString:
		{
			char *text = pnstrdup(value->val.string.val, value->val.string.len);

			if (strcmp(text, "*") == 0 &&
				(strcmp(name, "force_quote") == 0 ||
				 (strncmp(name, "force_", 6) == 0 && PGOS_COMPAT_COPY_FORCE_ALL)))
				return (Node *) makeNode(A_Star);
			/* the header line is there; what it is good for is the loader's business */
			if (strcmp(name, "header") == 0 && strcmp(text, "map") == 0)
				return (Node *) makeString("true");
			return (Node *) makeString(text);
		}
		case jbvNumeric:
			return (Node *) makeString(DatumGetCString(
				DirectFunctionCall1(numeric_out, NumericGetDatum(value->val.numeric))));
		case jbvBinary:
		{
			JsonbIterator	  *it = JsonbIteratorInit(value->val.binary.data);
			JsonbValue		   v;
			JsonbIteratorToken token;
			List			  *list = NIL;

			token = JsonbIteratorNext(&it, &v, false);
			if (token == WJB_BEGIN_ARRAY)
			{
				while ((token = JsonbIteratorNext(&it, &v, true)) == WJB_ELEM)
				{
					if (v.type != jbvString)
						break;
					list = lappend(list, makeString(pnstrdup(v.val.string.val, v.val.string.len)));
				}
				if (token == WJB_END_ARRAY && list != NIL)
					return (Node *) list;
			}
			break;
		}
		default:
			break;
	}
	ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					errmsg("option \"%s\" has a value of the wrong kind", name),
					errhint("Use a string, a boolean, a number, or an array of column names.")));
	return NULL;
}

List *
pgos_copy_options_build(bool is_from, PgosFormat format, Jsonb *options)
{
	static const char *const format_names[] = {"csv", "text", "binary"};
	const char *const		*known = is_from ? pgos_copy_from_options : pgos_copy_to_options;
	List					*list = NIL;
	bool					 has_header = false;
	bool					 has_encoding = false;

	list = lappend(list,
				   makeDefElem("format", (Node *) makeString(pstrdup(format_names[format])), -1));
	if (options != NULL)
	{
		JsonbIterator	  *it = JsonbIteratorInit(&options->root);
		JsonbValue		   v;
		JsonbIteratorToken token;

		(void) JsonbIteratorNext(&it, &v, false);
		while ((token = JsonbIteratorNext(&it, &v, true)) == WJB_KEY)
		{
			char *name = pnstrdup(v.val.string.val, v.val.string.len);

			(void) JsonbIteratorNext(&it, &v, true);
			if (!pgos_word_in_list(name, known))
				continue;
			if (v.type == jbvNull)
				continue;
			has_header |= strcmp(name, "header") == 0;
			has_encoding |= strcmp(name, "encoding") == 0;
			list = lappend(list, makeDefElem(name, pgos_copy_option_value(name, &v), -1));
		}
	}
	if (!has_header && format == PGOS_FORMAT_CSV)
		list = lappend(list, makeDefElem("header", (Node *) makeString("true"), -1));
	if (!has_encoding)
		list = lappend(list, makeDefElem("encoding",
										 (Node *) makeString(GetDatabaseEncoding() == PG_SQL_ASCII
																 ? "SQL_ASCII"
																 : "UTF8"),
										 -1));
	ProcessCopyOptions(NULL, NULL, is_from, list);
	return list;
}

PgosFormat
pgos_copy_options_format(List *options)
{
	const char *name = strVal(linitial_node(DefElem, options)->arg);

	return strcmp(name, "binary") == 0 ? PGOS_FORMAT_BINARY
		   : strcmp(name, "text") == 0 ? PGOS_FORMAT_TEXT
									   : PGOS_FORMAT_CSV;
}

bool
pgos_copy_options_header(List *options)
{
	ListCell *lc;

	foreach (lc, options)
	{
		DefElem *def = lfirst(lc);

		if (strcmp(def->defname, "header") == 0)
			return pg_strcasecmp(strVal(def->arg), "match") == 0 || defGetBoolean(def);
	}
	return false;
}

const char *
pgos_copy_options_encoding(List *options)
{
	ListCell *lc;

	foreach (lc, options)
	{
		DefElem *def = lfirst(lc);

		if (strcmp(def->defname, "encoding") == 0)
			return strVal(def->arg);
	}
	return "UTF8";
}

void
pgos_copy_encoding_pin(List *options)
{
	(void) set_config_option("client_encoding", pgos_copy_options_encoding(options), PGC_USERSET,
							 PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
}

int
pgos_copy_settings_pin(void)
{
	static const char *const settings[][2] = {
		{"datestyle", "ISO, YMD"}, {"intervalstyle", "postgres"}, {"extra_float_digits", "1"},
		{"bytea_output", "hex"},   {"xmloption", "content"},	  {"array_nulls", "on"},
		{"lc_monetary", "C"},
	};
	int level = NewGUCNestLevel();

	for (int i = 0; i < (int) lengthof(settings); i++)
		(void) set_config_option(settings[i][0], settings[i][1], PGC_USERSET, PGC_S_SESSION,
								 GUC_ACTION_SAVE, true, 0, false);
	return level;
}
