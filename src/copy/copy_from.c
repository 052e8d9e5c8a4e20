/*
 * copy_from.c
 *		Rows by COPY FROM, out of a source.
 *
 * BeginCopyFrom() with a data callback checks nothing, so the checks that COPY makes for a session are here.
 * The callback has no argument: the stream is in a static variable, saved and restored around the COPY.
 * Runs in a worker; raises.
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "access/xact.h"
#include "commands/progress.h"
#include "compat.h"
#include "copy/copy_load_internal.h"
#include "copy/copy_stream.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "parser/parse_node.h"
#include "utils/backend_status.h"
#include "utils/rel.h"
#include "utils/rls.h"
#include "utils/snapmgr.h"

static PgosCopyInput *pgos_copy_input = NULL;

/* COPY's counter of this process, as pg_stat_progress_copy shows it. */
static int64
pgos_copy_from_rows(void)
{
	volatile PgBackendStatus *entry = MyBEEntry;

	if (entry == NULL || entry->st_progress_command != PROGRESS_COMMAND_COPY)
		return 0;
	return entry->st_progress_param[PROGRESS_COPY_TUPLES_PROCESSED];
}

int
pgos_copy_input_read(void *outbuf, int minread, int maxread)
{
	PgosCopyInput *input = pgos_copy_input;
	int			   len = 0;

	CHECK_FOR_INTERRUPTS();
	while (len < maxread)
	{
		size_t n;

		/* enough for COPY, and more would mean work or waiting */
		if (len >= minread && input->source->avail == 0)
			break;
		n = pgos_source_read(input->source, (char *) outbuf + len, maxread - len);
		if (n == 0)
			break;
		if (input->is_binary)
			pgos_binary_check_feed(&input->binary, (char *) outbuf + len, n);
		len += (int) n;
	}
	if (input->load != NULL)
		input->load->events.tick(input->load->rows_before + pgos_copy_from_rows(),
								 input->load->events.arg);
	return len;
}

PgosCopyInput *
pgos_copy_input_set(PgosCopyInput *input)
{
	PgosCopyInput *previous = pgos_copy_input;

	pgos_copy_input = input;
	return previous;
}

List *
pgos_copy_options_without(List *options, const char *const *names)
{
	List	 *result = NIL;
	ListCell *lc;

	foreach (lc, options)
	{
		DefElem *def = lfirst(lc);
		bool	 drop = false;

		for (int i = 0; names[i] != NULL && !drop; i++)
			drop = strcmp(def->defname, names[i]) == 0;
		if (!drop)
			result = lappend(result, def);
	}
	return result;
}

void
pgos_copy_from_check(Relation rel, List *columns)
{
	ParseState *pstate = make_parsestate(NULL);
	Bitmapset  *bms = NULL;
	List	   *attnums;
	ListCell   *lc;

	if (!rel->rd_islocaltemp)
		PreventCommandIfReadOnly("objstore_pull");
	attnums = CopyGetAttnums(RelationGetDescr(rel), rel, pgos_copy_name_list(columns));
	foreach (lc, attnums)
		bms = bms_add_member(bms, lfirst_int(lc) - FirstLowInvalidHeapAttributeNumber);
	(void) pgos_compat_check_insert(pstate, rel, bms);
	free_parsestate(pstate);
}

void
pgos_copy_fail_marker(const char *url)
{
	ereport(ERROR,
			(errcode(ERRCODE_BAD_COPY_FILE_FORMAT),
			 errmsg("object \"%s\" goes on after its end-of-data marker", url),
			 errdetail("A line of nothing but \"\\.\" ends the rows, and there is more behind it."),
			 errhint("Remove what follows the marker, or the marker.")));
	pg_unreachable();
}

void
pgos_copy_check_end(CopyFromState cstate, const PgosCopyInput *input, const char *url)
{
	bool left;

	/* COPY has looked behind the trailer, but does not insist on one */
	if (cstate->opts.binary && !pgos_binary_check_complete(&input->binary))
		ereport(ERROR, (errcode(ERRCODE_BAD_COPY_FILE_FORMAT),
						errmsg("object \"%s\" ends without the trailer of the binary format", url),
						errhint("The object was not written to its end. Write it again.")));
	left = !cstate->opts.binary &&
		   (cstate->input_buf_index < cstate->input_buf_len ||
			(cstate->need_transcoding ? cstate->raw_buf_index < cstate->raw_buf_len
									  : cstate->input_buf_len < cstate->raw_buf_len));
	if (left || input->source->avail > 0 || input->source->fill(input->source))
		pgos_copy_fail_marker(url);
}

/* The names of the plan's columns as String nodes. */
static List *
pgos_copy_plan_names(const PgosLoad *load, const PgosPlan *plan)
{
	List *names = NIL;

	for (int i = 0; i < plan->column_count; i++)
	{
		Form_pg_attribute att =
			TupleDescAttr(RelationGetDescr(load->rel), plan->columns[i].attno - 1);

		names = lappend(names, makeString(pstrdup(NameStr(att->attname))));
	}
	return names;
}

CopyFromState
pgos_copy_begin(PgosLoad *load, const PgosPlan *plan, const PgosRowsInput *input,
				ParseState *pstate)
{
	List		 *options = list_copy(plan->options);
	CopyFromState cstate;

	if (plan->freeze)
		options = lappend(options, makeDefElem("freeze", (Node *) makeString("true"), -1));
	(void) addRangeTableEntryForRelation(pstate, load->rel, RowExclusiveLock, NULL, false, false);
	cstate = BeginCopyFrom(pstate, load->rel, NULL, NULL, false, pgos_copy_input_read,
						   pgos_copy_plan_names(load, plan), options);
	cstate->cur_lineno = input->first_line;
	cstate->eol_type = (EolType) plan->eol;
	return cstate;
}

int64
pgos_copy_rows(PgosLoad *load, const PgosPlan *plan, const PgosRowsInput *input, int64 *read)
{
	ParseState	 *pstate = make_parsestate(NULL);
	PgosCopyInput copy_input = {
		input->source, load, plan->object->format == PGOS_FORMAT_BINARY, {0}};
	PgosCopyInput *saved_input;
	volatile int64 rows = 0;

	PushActiveSnapshot(GetTransactionSnapshot());
	saved_input = pgos_copy_input_set(&copy_input);
	PG_TRY();
	{
		CopyFromState cstate = pgos_copy_begin(load, plan, input, pstate);

		load->cstate = cstate;
		rows = (int64) CopyFrom(cstate);
		load->cstate = NULL;
		pgos_copy_check_end(cstate, &copy_input, plan->object->url);
		EndCopyFrom(cstate);
	}
	PG_FINALLY();
	{
		load->cstate = NULL;
		(void) pgos_copy_input_set(saved_input);
	}
	PG_END_TRY();
	PopActiveSnapshot();
	free_parsestate(pstate);
	CommandCounterIncrement();
	*read = rows;
	return rows;
}

List *
pgos_copy_fields(PgosLoad *load, List *options, PgosSource *source)
{
	static const char *const not_here[] = {"force_null", "force_not_null", "default", NULL};
	PgosCopyInput			 copy_input = {source, NULL, false, {0}};
	PgosCopyInput			*saved_input;
	List *volatile names = NIL;

	saved_input = pgos_copy_input_set(&copy_input);
	PG_TRY();
	{
		CopyFromState cstate =
			BeginCopyFrom(NULL, load->rel, NULL, NULL, false, pgos_copy_input_read, NIL,
						  pgos_copy_options_without(options, not_here));
		char **fields;
		int	   count;

		if (NextCopyFromRawFields(cstate, &fields, &count))
		{
			for (int i = 0; i < count; i++)
				names = lappend(names, pstrdup(fields[i] != NULL ? fields[i] : ""));
		}
		EndCopyFrom(cstate);
	}
	PG_FINALLY();
	{
		(void) pgos_copy_input_set(saved_input);
	}
	PG_END_TRY();
	return names;
}
