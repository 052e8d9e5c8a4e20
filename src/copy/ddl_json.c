/*
 * ddl_json.c
 *		Writes and reads members of the manifest's "relation" object.
 *
 * Members that are missing count as null, so that older manifests stay readable; members of the wrong type
 * are errors.  Containers point into the caller's Jsonb, texts are copies in the current context.  Runs in a
 * worker; raises.
 */
#include "postgres.h"

#include "compat.h"
#include "copy/ddl_internal.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/json.h"
#include "utils/numeric.h"

/* ---------------------------------------------------------------- writing */

void
pgos_ddl_comma(StringInfo out)
{
	char last = out->data[out->len - 1];

	/* A blank stands at the end behind a key only: strings end in a quote. */
	if (last != '{' && last != '[' && last != ' ')
		appendStringInfoString(out, ", ");
}

void
pgos_ddl_put_key(StringInfo out, const char *key)
{
	pgos_ddl_comma(out);
	escape_json(out, key);
	appendStringInfoString(out, ": ");
}

void
pgos_ddl_put_text(StringInfo out, const char *key, const char *value)
{
	pgos_ddl_put_key(out, key);
	if (value == NULL)
		appendStringInfoString(out, "null");
	else
		escape_json(out, value);
}

void
pgos_ddl_put_bool(StringInfo out, const char *key, bool value)
{
	pgos_ddl_put_key(out, key);
	appendStringInfoString(out, value ? "true" : "false");
}

void
pgos_ddl_put_int64(StringInfo out, const char *key, int64 value)
{
	pgos_ddl_put_key(out, key);
	appendStringInfo(out, INT64_FORMAT, value);
}

/* ---------------------------------------------------------------- reading */

static void pgos_ddl_bad_member(const char *key, const char *expected) pg_attribute_noreturn();

static void
pgos_ddl_bad_member(const char *key, const char *expected)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_OBJECT_DEFINITION),
			 errmsg("invalid relation in the manifest: \"%s\" is not %s", key, expected),
			 errhint("The manifest was damaged or changed by hand.  Write the dataset again, "
					 "or create the table before pulling into it.")));
}

JsonbContainer *
pgos_ddl_root(Jsonb *relation)
{
	if (!JB_ROOT_IS_OBJECT(relation))
		pgos_ddl_bad_member("relation", "an object");
	return &relation->root;
}

/* The member if it is there and not null. */
static bool
pgos_ddl_member(JsonbContainer *object, const char *key, JsonbValue *value)
{
	return getKeyJsonValueFromContainer(object, key, strlen(key), value) != NULL &&
		   value->type != jbvNull;
}

char *
pgos_ddl_text(JsonbContainer *object, const char *key)
{
	JsonbValue value;

	if (!pgos_ddl_member(object, key, &value))
		return NULL;
	if (value.type != jbvString)
		pgos_ddl_bad_member(key, "a string");
	return pnstrdup(value.val.string.val, value.val.string.len);
}

/* Too long a name would be cut off, and could then be that of something else. */
char *
pgos_ddl_name(JsonbContainer *object, const char *key)
{
	char *name = pgos_ddl_text(object, key);

	if (name == NULL || name[0] == '\0' || strlen(name) >= NAMEDATALEN)
		pgos_ddl_bad_member(key, psprintf("a name of 1 to %d bytes", NAMEDATALEN - 1));
	return name;
}

bool
pgos_ddl_bool(JsonbContainer *object, const char *key)
{
	JsonbValue value;

	if (!pgos_ddl_member(object, key, &value))
		return false;
	if (value.type != jbvBool)
		pgos_ddl_bad_member(key, "true or false");
	return value.val.boolean;
}

bool
pgos_ddl_int64(JsonbContainer *object, const char *key, int64 *result)
{
	JsonbValue value;

	if (!pgos_ddl_member(object, key, &value))
		return false;
	if (value.type != jbvNumeric)
		pgos_ddl_bad_member(key, "a number");
	*result = DatumGetInt64(DirectFunctionCall1(numeric_int8, NumericGetDatum(value.val.numeric)));
	return true;
}

JsonbContainer *
pgos_ddl_object(JsonbContainer *object, const char *key)
{
	JsonbValue value;

	if (!pgos_ddl_member(object, key, &value))
		return NULL;
	if (value.type != jbvBinary || !JsonContainerIsObject(value.val.binary.data))
		pgos_ddl_bad_member(key, "an object");
	return value.val.binary.data;
}

List *
pgos_ddl_objects(JsonbContainer *object, const char *key)
{
	JsonbValue value;
	List	  *result = NIL;

	if (!pgos_ddl_member(object, key, &value))
		return NIL;
	if (value.type != jbvBinary || !JsonContainerIsArray(value.val.binary.data))
		pgos_ddl_bad_member(key, "an array");
	for (uint32 i = 0; i < JsonContainerSize(value.val.binary.data); i++)
	{
		JsonbValue *item = getIthJsonbValueFromContainer(value.val.binary.data, i);

		if (item == NULL || item->type != jbvBinary ||
			!JsonContainerIsObject(item->val.binary.data))
			pgos_ddl_bad_member(key, "an array of objects");
		result = lappend(result, item->val.binary.data);
	}
	return result;
}

List *
pgos_ddl_column_objects(Jsonb *relation)
{
	JsonbContainer *root = pgos_ddl_root(relation);
	JsonbValue		value;

	if (!pgos_ddl_member(root, "columns", &value))
		pgos_ddl_bad_member("columns", "an array");
	return pgos_ddl_objects(root, "columns");
}

List *
pgos_ddl_pairs(JsonbContainer *object)
{
	JsonbIterator	  *iterator = JsonbIteratorInit(object);
	JsonbIteratorToken token;
	JsonbValue		   value;
	List			  *result = NIL;

	while ((token = JsonbIteratorNext(&iterator, &value, true)) != WJB_DONE)
	{
		if (token != WJB_KEY && token != WJB_VALUE)
			continue;
		if (value.type != jbvString)
			pgos_ddl_bad_member("options", "an object of strings");
		result = lappend(result, pnstrdup(value.val.string.val, value.val.string.len));
	}
	return result;
}
