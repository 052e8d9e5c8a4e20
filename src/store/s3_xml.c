/*
 * s3_xml.c
 *		An XML answer as a small tree, by libxml2.
 *
 * The bytes come from a server that may be broken or hostile.  No network, no DTD, no entity beyond the five
 * of XML itself, libxml2's own limits in force (no XML_PARSE_HUGE), depth bounded here; the size is bounded by
 * whoever received the answer.  The libxml2 document lives only inside pgos_xml_parse().
 */
#include "postgres.h"

#include <limits.h>
#include <libxml/parser.h>
#include <libxml/tree.h>

#include "lib/stringinfo.h"
#include "store/s3_xml.h"

/* Answers of object stores need five levels. */
#define MAX_DEPTH 16

/* Copies an element and all below it; NULL when it is nested too deep. */
static PgosXml *
copy_element(xmlNode *node, int depth)
{
	PgosXml		  *element;
	PgosXml		 **tail;
	StringInfoData text;

	if (depth > MAX_DEPTH)
		return NULL;
	element = palloc0(sizeof(PgosXml));
	element->name = pstrdup((const char *) node->name);
	tail = &element->children;
	text.data = NULL;

	for (xmlNode *child = node->children; child != NULL; child = child->next)
	{
		if (child->type == XML_ELEMENT_NODE)
		{
			*tail = copy_element(child, depth + 1);
			if (*tail == NULL)
				return NULL;
			tail = &(*tail)->next;
		}
		else if ((child->type == XML_TEXT_NODE || child->type == XML_CDATA_SECTION_NODE) &&
				 child->content != NULL)
		{
			if (text.data == NULL)
				initStringInfo(&text);
			appendStringInfoString(&text, (const char *) child->content);
		}
	}
	element->text = text.data != NULL ? text.data : "";
	return element;
}

static xmlDoc *
read_document(const char *data, size_t len)
{
	return xmlReadMemory(data, (int) len, NULL, NULL,
						 XML_PARSE_NONET | XML_PARSE_NOERROR | XML_PARSE_NOWARNING |
							 XML_PARSE_COMPACT);
}

static bool
is_forbidden(long c)
{
	return c >= 0 && c < 0x20 && c != '\t' && c != '\n' && c != '\r';
}

/*
 * A copy in which control characters, and references to them, are question marks: keys may contain them, XML
 * must not, and some stores write them all the same.
 */
static char *
without_control_characters(const char *data, size_t len)
{
	char *copy = MemoryContextAllocHuge(CurrentMemoryContext, len + 1);

	memcpy(copy, data, len);
	copy[len] = '\0';
	for (size_t i = 0; i < len; i++)
	{
		bool hex = copy[i] == '&' && strncmp(copy + i, "&#x", 3) == 0;

		if (is_forbidden((unsigned char) copy[i]))
			copy[i] = '?';
		else if (hex || (copy[i] == '&' && copy[i + 1] == '#'))
		{
			char *end;
			long  c = strtol(copy + i + (hex ? 3 : 2), &end, hex ? 16 : 10);

			if (*end == ';' && is_forbidden(c))
				memset(copy + i, '?', end + 1 - (copy + i));
		}
	}
	return copy;
}

PgosXml *
pgos_xml_parse(const char *data, size_t len)
{
	xmlDoc *doc;
	PgosXml *volatile root = NULL;

	if (data == NULL || len == 0 || len > INT_MAX)
		return NULL;
	doc = read_document(data, len);
	if (doc == NULL)
	{
		char *copy = without_control_characters(data, len);

		doc = read_document(copy, len);
		pfree(copy);
	}
	if (doc == NULL)
		return NULL;

	PG_TRY();
	{
		xmlNode *node = xmlDocGetRootElement(doc);

		if (node != NULL && doc->intSubset == NULL && doc->extSubset == NULL)
			root = copy_element(node, 1);
	}
	PG_FINALLY();
	{
		xmlFreeDoc(doc);
	}
	PG_END_TRY();
	return root;
}

const PgosXml *
pgos_xml_child(const PgosXml *element, const char *name)
{
	for (const PgosXml *child = element->children; child != NULL; child = child->next)
	{
		if (strcmp(child->name, name) == 0)
			return child;
	}
	return NULL;
}

const char *
pgos_xml_text(const PgosXml *element, const char *name)
{
	const PgosXml *child = pgos_xml_child(element, name);

	return child != NULL ? child->text : "";
}
