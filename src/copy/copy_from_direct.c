/*
 * copy_from_direct.c
 *		COPY FROM without COPY: rows out of the direct decoder into a table.
 *
 * COPY is the reference.  It is begun here as it would be for its own work, so that columns, input functions,
 * defaults and the words of error messages are its own; rows are checked and inserted with the same calls in groups
 * of the same size, so that of two errors the same one comes first.
 *
 * Where the stream is not plain, COPY does the rest.  The rows gathered since the last group are not inserted
 * then: COPY begins with them again, and meets what is wrong in its own order.  Only rows that have taken numbers from
 * a sequence are inserted first, for they would get others the second time.
 *
 * Memory: a window of the stream, which holds the rows of a group and grows with the longest record up to
 * PGOS_WINDOW_MAX, and the group's tuples.  It goes with the context; what else must be given back (pins,
 * relations) is the resource owner's.  Runs in a worker; raises.
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/pg_class.h"
#include "commands/progress.h"
#include "compat.h"
#include "copy/copy_load_internal.h"
#include "copy/decode.h"
#include "copy/tuple_form.h"
#include "executor/executor.h"
#include "guc.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "optimizer/optimizer.h"
#include "parser/parse_node.h"
#include "utils/backend_progress.h"
#include "utils/memutils.h"
#include "utils/portal.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#define PGOS_WINDOW_MIN ((size_t) 256 * 1024)
#define PGOS_WINDOW_MAX ((size_t) 64 * 1024 * 1024)
/* Behind the window: what may be read, and a line end. */
#define PGOS_WINDOW_PAD (PGOS_MARK_BLOCK + 2)
/* A group is inserted when it has so many rows or bytes: as COPY has it. */
#define PGOS_GROUP_ROWS 1000
#define PGOS_GROUP_BYTES 65535
/* WAL of so many bytes is worth waking the WAL writer. */
#define PGOS_WAL_BYTES (1024 * 1024)
/* Of a row, what may be shown in an error's context. */
#define PGOS_SHOWN_BYTES 1024

typedef struct PgosDirect
{
	PgosLoad			*load;
	const PgosRowsInput *input;
	CopyFromState		 cstate;
	PgosDecoder			*decoder;
	PgosEol				 eol;
	/* the window: bytes of the stream from `group` on */
	char   *window;
	size_t	size;
	char   *group; /* where the rows gathered begin */
	char   *at;	   /* the next record */
	char   *valid; /* what is before it is right in its encoding */
	char   *end;
	uint64	line;		/* lines before the next record */
	uint64	group_line; /* lines before the group */
	PgosEol group_eol;	/* what was known of line ends there */
	char   *row;		/* that is at hand, for error messages, or NULL */
	size_t	row_len;
	/* insertion */
	EState			*estate;
	ResultRelInfo	*rri;
	BulkInsertState	 bistate;
	CommandId		 command;
	int				 options;
	bool			 checks;   /* there are CHECK constraints */
	bool			 not_null; /* there are columns that must not be null */
	bool			 all;	   /* the file has all columns */
	bool			 once;	   /* a default has another value the next time */
	TupleTableSlot **slots;
	PgosTupleLayout *layout; /* of a heap; NULL: the table's access method makes the tuples */
	uint64			*lines;	 /* of the rows gathered */
	int				 count;
	size_t			 bytes;
	int64			 rows; /* inserted */
	XLogRecPtr		 wal;  /* what the WAL writer has been told of */
} PgosDirect;

/* ---------------------------------------------------------------- choice */

/* Why rows for the relation need COPY's own machinery, or NULL. */
static const char *
pgos_direct_refusal(const PgosLoad *load, const PgosPlan *plan)
{
	Relation	 rel = load->rel;
	TriggerDesc *triggers = rel->trigdesc;
	TupleConstr *constr = RelationGetDescr(rel)->constr;

	if (pgos_fast_path == PGOS_FAST_PATH_OFF)
		return "pgobjstore.fast_path is off";
	if (plan->object->format == PGOS_FORMAT_BINARY)
		return "binary format";
	if (rel->rd_rel->relkind == RELKIND_PARTITIONED_TABLE)
		return "the relation is partitioned";
	if (rel->rd_rel->relkind != RELKIND_RELATION)
		return "the relation is not a table";
	if (triggers != NULL &&
		(triggers->trig_insert_before_row || triggers->trig_insert_after_row ||
		 triggers->trig_insert_instead_row || triggers->trig_insert_before_statement ||
		 triggers->trig_insert_after_statement || triggers->trig_insert_new_table))
		return "the relation has triggers or foreign keys";
	if (constr != NULL &&
		(constr->has_generated_stored || PGOS_COMPAT_HAS_GENERATED_VIRTUAL(constr)))
		return "the relation has generated columns";
	return NULL;
}

/* Options of insertion as COPY has them; false: COPY will say why rows cannot be frozen. */
static bool
pgos_direct_options(const PgosLoad *load, const PgosPlan *plan, int *options)
{
	Relation rel = load->rel;

	*options = 0;
	if (rel->rd_createSubid != InvalidSubTransactionId ||
		PGOS_COMPAT_FIRST_FILE_SUBID(rel) != InvalidSubTransactionId)
		*options |= TABLE_INSERT_SKIP_FSM;
	if (!plan->freeze)
		return true;
	*options |= TABLE_INSERT_FROZEN;
	InvalidateCatalogSnapshot();
	return ThereAreNoPriorRegisteredSnapshots() && ThereAreNoReadyPortals() &&
		   (rel->rd_createSubid == GetCurrentSubTransactionId() ||
			PGOS_COMPAT_NEW_FILE_SUBID(rel) == GetCurrentSubTransactionId());
}

static void
pgos_direct_note(PgosLoad *load, const char *reason)
{
	if (load->copy_reason == NULL)
		load->copy_reason = MemoryContextStrdup(load->context, reason);
}

/* ---------------------------------------------------------------- insertion */

static void
pgos_direct_begin(PgosDirect *direct)
{
	Relation  rel = direct->load->rel;
	TupleDesc desc = RelationGetDescr(rel);

	direct->estate = CreateExecutorState();
	pgos_compat_init_range_table(direct->estate, direct->cstate);
	direct->rri = makeNode(ResultRelInfo);
	ExecInitResultRelation(direct->estate, direct->rri, 1);
	ExecOpenIndices(direct->rri, false);
	direct->command = GetCurrentCommandId(true);
	direct->bistate = GetBulkInsertState();
	direct->checks = desc->constr != NULL && desc->constr->num_check > 0;
	direct->not_null = desc->constr != NULL && desc->constr->has_not_null;
	if (rel->rd_tableam == GetHeapamTableAmRoutine())
		direct->layout = pgos_tuple_layout_new(desc);
	direct->all = list_length(direct->cstate->attnumlist) == desc->natts;
	for (int i = 0; i < direct->cstate->num_defaults; i++)
		direct->once |=
			contain_volatile_functions((Node *) PGOS_COMPAT_COPY_DEFAULT(direct->cstate, i)->expr);
	direct->slots = palloc0(PGOS_GROUP_ROWS * sizeof(TupleTableSlot *));
	direct->lines = palloc(PGOS_GROUP_ROWS * sizeof(uint64));
}

/* Forgets the rows gathered. */
static void
pgos_direct_clear(PgosDirect *direct)
{
	for (int i = 0; i < direct->count; i++)
		ExecClearTuple(direct->slots[i]);
	direct->count = 0;
	direct->bytes = 0;
	direct->group = direct->at;
	direct->group_line = direct->line;
	direct->group_eol = direct->eol;
}

/*
 * Bulk insertion goes round in a few buffers, and before one of them can be written the WAL must be on disk: the
 * worker would wait for that again and again, as COPY does.  The WAL writer does it meanwhile if it is told in time,
 * in the way of an asynchronous commit.
 */
static void
pgos_direct_wake_wal_writer(PgosDirect *direct)
{
	if (XactLastRecEnd < direct->wal + PGOS_WAL_BYTES)
		return;
	if (direct->wal != InvalidXLogRecPtr)
		XLogSetAsyncXactLSN(XactLastRecEnd);
	direct->wal = XactLastRecEnd;
}

/* Inserts the rows gathered. */
static void
pgos_direct_flush(PgosDirect *direct)
{
	CopyFromState cstate = direct->cstate;
	Relation	  rel = direct->load->rel;
	MemoryContext old;

	if (direct->count == 0)
		return;
	direct->row = NULL;
	old = MemoryContextSwitchTo(GetPerTupleMemoryContext(direct->estate));
	table_multi_insert(rel, direct->slots, direct->count, direct->command, direct->options,
					   direct->bistate);
	MemoryContextSwitchTo(old);
	pgos_direct_wake_wal_writer(direct);
	for (int i = 0; i < direct->count && direct->rri->ri_NumIndices > 0; i++)
	{
		cstate->cur_lineno = direct->lines[i];
		list_free(pgos_compat_insert_index_tuples(direct->rri, direct->slots[i], direct->estate));
	}
	direct->rows += direct->count;
	pgos_direct_clear(direct);
	pgstat_progress_update_param(PROGRESS_COPY_TUPLES_PROCESSED, direct->rows);
}

/* The values of columns that are not in the file. */
static void
pgos_direct_defaults(PgosDirect *direct, TupleTableSlot *slot)
{
	CopyFromState cstate = direct->cstate;
	ExprContext	 *econtext = GetPerTupleExprContext(direct->estate);

	for (int i = 0; i < cstate->num_defaults; i++)
	{
		int n = cstate->defmap[i];

		slot->tts_values[n] =
			ExecEvalExpr(PGOS_COMPAT_COPY_DEFAULT(cstate, i), econtext, &slot->tts_isnull[n]);
	}
}

static TupleTableSlot *
pgos_direct_slot(PgosDirect *direct)
{
	Relation rel = direct->load->rel;

	return direct->layout != NULL
			   ? MakeSingleTupleTableSlot(RelationGetDescr(rel), &TTSOpsHeapTuple)
			   : table_slot_create(rel, NULL);
}

/* The row in the slot out of the memory of the row. */
static void
pgos_direct_keep(PgosDirect *direct, TupleTableSlot *slot)
{
	MemoryContext old;

	if (direct->layout == NULL)
	{
		ExecMaterializeSlot(slot);
		return;
	}
	old = MemoryContextSwitchTo(slot->tts_mcxt);
	ExecStoreHeapTuple(pgos_tuple_form(direct->layout, slot->tts_values, slot->tts_isnull), slot,
					   true);
	MemoryContextSwitchTo(old);
	slot->tts_tableOid = RelationGetRelid(direct->load->rel);
}

/* Takes the record that was split. */
static void
pgos_direct_row(PgosDirect *direct, const PgosDecodeRecord *record)
{
	Relation		rel = direct->load->rel;
	TupleTableSlot *slot = direct->slots[direct->count];
	MemoryContext	old;

	CHECK_FOR_INTERRUPTS();
	if (slot == NULL)
		slot = direct->slots[direct->count] = pgos_direct_slot(direct);
	direct->row = direct->at;
	direct->row_len = record->data_len;
	direct->line += 1 + record->newlines;
	direct->cstate->cur_lineno = direct->line;

	ResetPerTupleExprContext(direct->estate);
	old = MemoryContextSwitchTo(GetPerTupleMemoryContext(direct->estate));
	ExecClearTuple(slot);
	if (!direct->all)
	{
		memset(slot->tts_values, 0, slot->tts_tupleDescriptor->natts * sizeof(Datum));
		memset(slot->tts_isnull, true, slot->tts_tupleDescriptor->natts * sizeof(bool));
	}
	pgos_decoder_values(direct->decoder, slot->tts_values, slot->tts_isnull);
	if (direct->cstate->num_defaults > 0)
		pgos_direct_defaults(direct, slot);
	ExecStoreVirtualTuple(slot);
	slot->tts_tableOid = RelationGetRelid(rel);
	MemoryContextSwitchTo(old);

	if (direct->checks || (direct->not_null && memchr(slot->tts_isnull, true,
													  slot->tts_tupleDescriptor->natts) != NULL))
		ExecConstraints(direct->rri, slot, direct->estate);
	if (rel->rd_rel->relispartition)
		(void) ExecPartitionCheck(direct->rri, slot, direct->estate, true);
	pgos_direct_keep(direct, slot);
	direct->lines[direct->count++] = direct->line;
	direct->bytes += record->data_len;
	direct->at += record->len;
	if (direct->count == PGOS_GROUP_ROWS || direct->bytes >= PGOS_GROUP_BYTES)
		pgos_direct_flush(direct);
}

static void
pgos_direct_end(PgosDirect *direct)
{
	FreeBulkInsertState(direct->bistate);
	for (int i = 0; i < PGOS_GROUP_ROWS && direct->slots[i] != NULL; i++)
		ExecDropSingleTupleTableSlot(direct->slots[i]);
	table_finish_bulk_insert(direct->load->rel, direct->options);
	ExecResetTupleTable(direct->estate->es_tupleTable, false);
	ExecCloseResultRelations(direct->estate);
	ExecCloseRangeTableRelations(direct->estate);
	FreeExecutorState(direct->estate);
}

/* ---------------------------------------------------------------- window */

/*
 * More bytes of the stream behind those that are there; false at its end.  The window must have room, or the
 * record is longer than it may be: then there is a *reason.
 */
static bool
pgos_direct_fill(PgosDirect *direct, const char **reason)
{
	size_t kept = direct->end - direct->group;
	bool   grow = kept > direct->size / 2 && direct->size < PGOS_WINDOW_MAX;
	size_t n;

	if (kept == direct->size && !grow)
	{
		*reason = "a very long line";
		return false;
	}
	if (grow || direct->group != direct->window)
	{
		size_t size = grow ? direct->size * 2 : direct->size;
		char  *window = direct->window;

		if (grow)
			window = palloc(size + PGOS_WINDOW_PAD);
		memmove(window, direct->group, kept);
		direct->at = window + (direct->at - direct->group);
		direct->valid = window + (direct->valid - direct->group);
		direct->group = window;
		direct->end = window + kept;
		if (window != direct->window)
			pfree(direct->window);
		direct->window = window;
		direct->size = size;
	}
	n = pgos_source_read(direct->input->source, direct->end, direct->size - kept);
	direct->end += n;
	direct->valid += pg_encoding_verifymbstr(direct->cstate->file_encoding, direct->valid,
											 (int) (direct->end - direct->valid));
	direct->cstate->bytes_processed += n;
	pgstat_progress_update_param(PROGRESS_COPY_BYTES_PROCESSED, direct->cstate->bytes_processed);
	direct->load->events.tick(direct->load->rows_before + direct->rows, direct->load->events.arg);
	return n > 0;
}

/* The stream has ended, perhaps without the last record's line end; false if that record is not plain. */
static bool
pgos_direct_last(PgosDirect *direct)
{
	static const char line_end[] = "\r\n";
	size_t			  len = direct->eol == PGOS_EOL_CRNL ? 2 : 1;
	size_t			  left = direct->end - direct->at;
	PgosEol			  eol = direct->eol;
	PgosDecodeRecord  record;

	if (left == 0)
		return true;
	if (direct->valid < direct->end || direct->end[-1] == '\r')
		return false;
	memcpy(direct->end, line_end + sizeof(line_end) - 1 - len, len);
	if (pgos_decoder_split(direct->decoder, direct->at, direct->end + len, &eol, &record) !=
			PGOS_DECODE_RECORD ||
		record.len != left + len)
		return false;
	pgos_direct_row(direct, &record);
	return true;
}

/* Loads what is plain.  Returns NULL at the end of the stream, else what is not. */
static const char *
pgos_direct_load(PgosDirect *direct)
{
	const char		*reason = NULL;
	PgosDecodeRecord record;

	for (;;)
	{
		switch (
			pgos_decoder_split(direct->decoder, direct->at, direct->valid, &direct->eol, &record))
		{
			case PGOS_DECODE_RECORD:
				pgos_direct_row(direct, &record);
				break;
			case PGOS_DECODE_ODD:
				return pgos_decoder_oddity(direct->decoder);
			case PGOS_DECODE_MORE:
				if (direct->end - direct->valid >=
					pg_encoding_max_length(direct->cstate->file_encoding))
					return "bytes that are wrong in their encoding";
				if (pgos_direct_fill(direct, &reason))
					break;
				if (reason != NULL)
					return reason;
				if (!pgos_direct_last(direct))
					return "the last line";
				/* where COPY is when it finds the end */
				direct->cstate->cur_lineno = direct->line + 1;
				pgos_direct_flush(direct);
				return NULL;
		}
	}
}

/* ---------------------------------------------------------------- the rest, by COPY */

/* What is left in the window, and then the source. */
typedef struct PgosRestSource
{
	PgosSource	base;
	PgosSource *from;
} PgosRestSource;

static bool
pgos_rest_source_fill(PgosSource *source)
{
	PgosSource *from = ((PgosRestSource *) source)->from;

	if (from->avail == 0 && !from->fill(from))
		return false;
	source->data = from->data;
	source->avail = from->avail;
	from->data += from->avail;
	from->avail = 0;
	return true;
}

/* The rest, from the group on. */
static int64
pgos_direct_rest(PgosDirect *direct, const PgosPlan *plan, const char *reason, int64 *read)
{
	PgosLoad	  *load = direct->load;
	PgosRestSource rest = {{pgos_rest_source_fill, direct->group, direct->end - direct->group},
						   direct->input->source};
	PgosRowsInput input = {&rest.base, direct->group_line, direct->input->first_row + direct->rows};
	PgosPlan	  rest_plan = *plan;
	int64		  rows;

	rest_plan.eol = direct->group_eol;
	load->rows_before += direct->rows;
	rows = pgos_copy_rows(load, &rest_plan, &input, read);
	load->rows_before -= direct->rows;
	/* if COPY has raised an error there are no rows to speak of */
	pgos_direct_note(load,
					 psprintf("from line " UINT64_FORMAT " on, for %s", direct->line + 1, reason));
	return rows;
}

/* ---------------------------------------------------------------- both */

/* For COPY's own callback, which comes next: the line to show. */
static void
pgos_direct_context(void *arg)
{
	PgosDirect	 *direct = arg;
	CopyFromState cstate = direct->cstate;

	cstate->line_buf_valid = direct->row != NULL;
	if (direct->row == NULL)
		return;
	resetStringInfo(&cstate->line_buf);
	appendBinaryStringInfo(&cstate->line_buf, direct->row,
						   (int) Min(direct->row_len, PGOS_SHOWN_BYTES));
}

/* Loads what is plain; returns NULL, or why the rest of the stream is for COPY. */
static const char *
pgos_direct_run(PgosDirect *direct, const PgosPlan *plan)
{
	PgosLoad			*load = direct->load;
	ErrorContextCallback copy_context = {error_context_stack, CopyFromErrorCallback,
										 direct->cstate};
	ErrorContextCallback context = {&copy_context, pgos_direct_context, direct};
	const char			*reason;

	reason = pgos_decoder_refusal(direct->cstate);
	if (reason == NULL && !pgos_direct_options(load, plan, &direct->options))
		reason = "rows cannot be frozen";
	if (reason != NULL)
		return reason;
	direct->decoder = pgos_decoder_new(direct->cstate);
	direct->size = PGOS_WINDOW_MIN;
	direct->window = palloc(direct->size + PGOS_WINDOW_PAD);
	direct->group = direct->at = direct->valid = direct->end = direct->window;
	pgos_direct_begin(direct);
	error_context_stack = &context;
	reason = pgos_direct_load(direct);
	if (reason != NULL && direct->once)
		pgos_direct_flush(direct);
	error_context_stack = copy_context.previous;
	pgos_direct_end(direct);
	return reason;
}

int64
pgos_direct_rows(PgosLoad *load, const PgosPlan *plan, const PgosRowsInput *input, int64 *read)
{
	PgosDirect	  direct = {0};
	ParseState	 *pstate;
	MemoryContext context;
	MemoryContext old;
	const char *volatile reason = pgos_direct_refusal(load, plan);
	int64 rows;

	if (reason != NULL)
	{
		pgos_direct_note(load, reason);
		return pgos_copy_rows(load, plan, input, read);
	}
	context =
		AllocSetContextCreate(CurrentMemoryContext, "pgobjstore direct", ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(context);
	direct.load = load;
	direct.input = input;
	direct.eol = direct.group_eol = plan->eol;
	direct.line = direct.group_line = input->first_line;
	pstate = make_parsestate(NULL);
	PushActiveSnapshot(GetTransactionSnapshot());
	PG_TRY();
	{
		direct.cstate = pgos_copy_begin(load, plan, input, pstate);
		load->cstate = direct.cstate;
		reason = pgos_direct_run(&direct, plan);
		load->cstate = NULL;
		EndCopyFrom(direct.cstate);
	}
	PG_FINALLY();
	{
		load->cstate = NULL;
	}
	PG_END_TRY();
	PopActiveSnapshot();
	free_parsestate(pstate);
	CommandCounterIncrement();
	MemoryContextSwitchTo(old);

	rows = direct.rows;
	*read = rows;
	if (reason != NULL && direct.window == NULL)
	{
		pgos_direct_note(load, reason);
		rows = pgos_copy_rows(load, plan, input, read);
	}
	else if (reason != NULL)
	{
		int64 rest_read;

		rows += pgos_direct_rest(&direct, plan, reason, &rest_read);
		*read += rest_read;
	}
	MemoryContextDelete(context);
	return rows;
}
