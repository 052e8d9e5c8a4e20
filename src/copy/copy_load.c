/*
 * copy_load.c
 *		An object from its first byte to its last: byte order mark, header line, plan, then the rows.
 *
 * The header line is read here and not by COPY: only here is it known what is to be done with it, and the rows
 * may then be given to COPY in pieces.  COPY is told how many lines came before.
 *
 * Runs in a worker; raises.
 */
#include "postgres.h"

#include "catalog/pg_class.h"
#include "compat.h"
#include "copy/copy_load_internal.h"
#include "copy/copy_options.h"
#include "copy/copy_stream.h"
#include "core/guess.h"
#include "mb/pg_wchar.h"
#include "stream/peek_source.h"
#include "utils/guc.h"
#include "utils/rel.h"
#include "utils/rls.h"

/* A header line longer than this is none. */
#define PGOS_HEADER_MAX (1024 * 1024)
#define PGOS_HEADER_STEP (64 * 1024)

/*
 * Says which object it is, and keeps where the error came from for copy_batch.c.  COPY's own callback, if it is
 * active, has told line, column and value already.
 */
static void
pgos_load_context(void *arg)
{
	PgosLoad	 *load = arg;
	CopyFromState cstate = load->cstate;
	bool		  in_copy = false;

	for (ErrorContextCallback *callback = error_context_stack; callback != NULL && cstate != NULL;
		 callback = callback->previous)
		in_copy |= callback->callback == CopyFromErrorCallback && callback->arg == cstate;
	load->place.known = (in_copy || (cstate != NULL && load->inserting)) &&
						cstate->cur_lineno > 0 && !PGOS_COMPAT_COPY_NO_LINE(cstate);
	load->place.column[0] = '\0';
	if (load->place.known)
	{
		load->place.line = cstate->cur_lineno;
		if (in_copy && cstate->cur_attname != NULL)
			strlcpy(load->place.column, cstate->cur_attname, sizeof(load->place.column));
	}
	if (load->place.known && !in_copy)
		errcontext("object \"%s\", line " UINT64_FORMAT, load->plan->object->url, load->place.line);
	else
		errcontext("object \"%s\"", load->plan->object->url);
}

int64
pgos_load_rows(PgosLoad *load, const PgosPlan *plan, const PgosRowsInput *input, int64 *read)
{
	if (!plan->insert)
		return pgos_direct_rows(load, plan, input, read);
	if (load->copy_reason == NULL)
		load->copy_reason = plan->insert_reason;
	return pgos_insert_rows(load, plan, input, read);
}

/* ---------------------------------------------------------------- the first line */

static bool
pgos_load_never(PgosSource *source)
{
	return false;
}

/* Looks for the end of the first line without taking it; 0: there is no line. */
static size_t
pgos_load_first_line(const PgosLoadObject *object, PgosSplitter *splitter, PgosSource *source)
{
	for (size_t want = PGOS_HEADER_STEP;; want *= 2)
	{
		size_t avail = pgos_peek_source_look(source, want);
		size_t len;
		size_t data_len;

		switch (pgos_splitter_scan(splitter, source->data, avail, avail < want, &len, &data_len))
		{
			case PGOS_SPLIT_RECORD:
				return len;
			case PGOS_SPLIT_MARKER:
			case PGOS_SPLIT_END:
				return 0;
			case PGOS_SPLIT_OPEN_QUOTE:
				ereport(ERROR, (errcode(ERRCODE_BAD_COPY_FILE_FORMAT),
								errmsg("unterminated quote in the first line of object \"%s\"",
									   object->url)));
				break;
			case PGOS_SPLIT_MORE:
				break;
		}
		if (want > PGOS_HEADER_MAX)
			ereport(ERROR,
					(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
					 errmsg("the first line of object \"%s\" is longer than %d bytes", object->url,
							PGOS_HEADER_MAX),
					 errhint("Check that format, quote and header are as the object has them.")));
	}
}

/* As COPY's HEADER MATCH. */
static void
pgos_load_match_header(PgosLoad *load, const PgosPlan *plan, List *fields)
{
	int		  i = 0;
	ListCell *lc;

	if (list_length(fields) != plan->column_count)
		ereport(ERROR, (errcode(ERRCODE_BAD_COPY_FILE_FORMAT),
						errmsg("wrong number of fields in header line: got %d, expected %d",
							   list_length(fields), plan->column_count)));
	foreach (lc, fields)
	{
		const PgosFileColumn *column = &plan->columns[i++];
		const char			 *want = column->name;

		if (column->attno != 0)
			want = NameStr(TupleDescAttr(RelationGetDescr(load->rel), column->attno - 1)->attname);
		if (strcmp(want, lfirst(lc)) != 0)
			ereport(
				ERROR,
				(errcode(ERRCODE_BAD_COPY_FILE_FORMAT),
				 errmsg("column name mismatch in header line field %d: got \"%s\", expected \"%s\"",
						i, (char *) lfirst(lc), want),
				 errhint("With options => '{\"header\": \"map\"}' the order does not matter.")));
	}
}

/* Byte order marks: that of UTF-8 is taken away, others say that COPY cannot read it. */
static void
pgos_load_byte_order_mark(const PgosLoadObject *object, int encoding, PgosSource *source)
{
	size_t avail = pgos_peek_source_look(source, PGOS_MAGIC_BYTES);

	/* what a push wrote has none, but its first value may look so */
	if (object->own || (encoding != PG_UTF8 && encoding != PG_SQL_ASCII))
		return;
	switch (pgos_guess_magic(source->data, avail, NULL))
	{
		case PGOS_MAGIC_UTF8_BOM:
			source->data += PGOS_UTF8_BOM_LEN;
			source->avail -= PGOS_UTF8_BOM_LEN;
			break;
		case PGOS_MAGIC_UTF16:
			ereport(ERROR,
					(errcode(ERRCODE_CHARACTER_NOT_IN_REPERTOIRE),
					 errmsg("object \"%s\" is in UTF-16 or UTF-32", object->url),
					 errdetail("It begins with the byte order mark of that encoding, which COPY "
							   "cannot read."),
					 errhint("Convert it to UTF-8.")));
			break;
		default:
			break;
	}
}

/*
 * The plan for an object in csv or text format; the header line is taken away.  *first_line: lines taken.  NULL:
 * there is nothing in it.
 */
static PgosPlan *
pgos_load_begin_text(PgosLoad *load, const PgosLoadObject *object, const CopyFormatOptions *format,
					 PgosSource *source, PgosSplitter *splitter, uint64 *first_line)
{
	static const char *const not_here[] = {"header", "freeze", NULL};
	bool					 map = load->spec->map_header;
	bool					 match = format->header_line == COPY_HEADER_MATCH;
	bool					 has_header = map || format->header_line != COPY_HEADER_FALSE;
	int						 encoding = format->file_encoding;
	List					*fields = NIL;
	PgosPlan				*plan;
	size_t					 len = 0;

	splitter->csv = format->csv_mode;
	splitter->marker = !format->csv_mode || PGOS_COMPAT_COPY_CSV_MARKER;
	splitter->quote = format->csv_mode ? format->quote[0] : '\0';
	splitter->escape = format->csv_mode ? format->escape[0] : '\0';
	splitter->encoding = PG_ENCODING_IS_CLIENT_ONLY(encoding) ? encoding : -1;
	pgos_load_byte_order_mark(object, encoding, source);
	if (has_header || load->spec->ignore_extra)
		len = pgos_load_first_line(object, splitter, source);
	if (len > 0 && (map || match || load->spec->ignore_extra))
	{
		PgosSource line = {pgos_load_never, source->data, len};

		fields =
			pgos_copy_fields(load, pgos_copy_options_without(object->options, not_here), &line);
	}
	if (len == 0 && map && source->avail > 0)
		ereport(ERROR, (errcode(ERRCODE_BAD_COPY_FILE_FORMAT),
						errmsg("object \"%s\" has no header line", object->url)));
	/* an empty object has no rows, so it needs no columns */
	if (len == 0 && map)
		return NULL;
	plan = pgos_plan_make(load, object, fields, list_length(fields));
	if (match)
		pgos_load_match_header(load, plan, fields);
	if (len > 0 && has_header)
	{
		*first_line = 1 + splitter->newlines;
		source->data += len;
		source->avail -= len;
	}
	pgos_splitter_next(splitter);
	plan->eol = splitter->eol;
	return plan;
}

/* ---------------------------------------------------------------- objects */

/*
 * Dates are read as the role has it, or the option; all else as what is the same everywhere.  What a push wrote is
 * read as it was written.
 */
static int
pgos_load_settings(const PgosLoad *load, const PgosLoadObject *object)
{
	int level = pgos_copy_settings_pin();

	pgos_copy_encoding_pin(object->options);
	if (!object->own)
		(void) set_config_option(
			"datestyle", load->spec->datestyle != NULL ? load->spec->datestyle : load->datestyle,
			PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
	return level;
}

void
pgos_load_object(PgosLoad *load, const PgosLoadObject *object, PgosSource *source,
				 PgosLoadCounts *counts)
{
	PgosPlan			 nothing = {0};
	PgosPlan			*plan;
	ErrorContextCallback context;
	PgosSplitter		 splitter = {0};
	CopyFormatOptions	 format = {0};
	uint64				 first_line = 0;
	int					 level = pgos_load_settings(load, object);
	bool				 is_binary = object->format == PGOS_FORMAT_BINARY;

	memset(counts, 0, sizeof(*counts));
	load->rows_before = 0;
	nothing.object = object;
	load->plan = &nothing;
	context.callback = pgos_load_context;
	context.arg = load;
	context.previous = error_context_stack;
	error_context_stack = &context;

	ProcessCopyOptions(NULL, &format, true, object->options);
	if (is_binary)
		plan = pgos_plan_make(load, object, NIL, 0);
	else
		plan = pgos_load_begin_text(load, object, &format, source, &splitter, &first_line);
	if (plan != NULL)
	{
		load->plan = plan;
		if (!is_binary && (load->spec->skip || load->spec->on_conflict == PGOS_CONFLICT_UPDATE))
			pgos_batch_load(load, plan, &splitter, format.file_encoding, source, first_line,
							counts);
		else
		{
			PgosRowsInput input = {source, first_line, 0};

			counts->loaded = pgos_load_rows(load, plan, &input, &counts->read);
		}
	}
	load->plan = NULL;
	error_context_stack = context.previous;
	AtEOXact_GUC(true, level);
	load->events.tick(counts->loaded, load->events.arg);
}

PgosLoad *
pgos_load_begin(Relation rel, bool new_relation, const PgosLoadSpec *spec,
				const PgosLoadEvents *events)
{
	PgosLoad *load = palloc0(sizeof(PgosLoad));

	load->rel = rel;
	load->new_relation = new_relation;
	load->spec = spec;
	load->events = *events;
	load->context = CurrentMemoryContext;
	load->rls = check_enable_rls(RelationGetRelid(rel), InvalidOid, true) == RLS_ENABLED;
	load->datestyle = pstrdup(GetConfigOption("datestyle", false, false));
	return load;
}

bool
pgos_load_may_drop_rows(const PgosLoad *load)
{
	TriggerDesc *triggers = load->rel->trigdesc;

	return (triggers != NULL &&
			(triggers->trig_insert_before_row || triggers->trig_insert_instead_row)) ||
		   load->rel->rd_rel->relkind != RELKIND_RELATION ||
		   load->spec->on_conflict != PGOS_CONFLICT_ERROR || load->spec->skip;
}

const char *
pgos_load_copy_reason(const PgosLoad *load)
{
	return load->copy_reason;
}

int64
pgos_copy_from(Relation rel, List *columns, List *options, bool freeze, const char *url,
			   PgosSource *source, PgosCopyTick tick, void *arg, const char **copy_reason)
{
	PgosLoadSpec   spec = {0};
	PgosLoadEvents events = {tick, NULL, arg};
	PgosLoadObject object = {0};
	PgosLoadCounts counts;
	PgosLoad	  *load = pgos_load_begin(rel, freeze, &spec, &events);

	object.key = object.url = url;
	object.options = options;
	object.columns = columns;
	object.own = true;
	object.format = pgos_copy_options_format(options);
	pgos_load_object(load, &object, pgos_peek_source_new(source), &counts);
	*copy_reason = pgos_load_copy_reason(load);
	return counts.loaded;
}
