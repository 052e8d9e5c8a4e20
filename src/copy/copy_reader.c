/*
 * copy_reader.c
 *		Rows as COPY's parser reads them, one by one, in the row type of the relation.
 *
 * COPY's parser works for a relation: its columns are the columns of the file.  So it is given one that exists
 * in this process only: the descriptor has the file's columns in the file's order, with the types that the
 * relation's columns have, and for columns that are left out one that takes anything.  What COPY says in its
 * errors (relation, line, column, value) stays as it is.
 *
 * Runs in a worker; raises.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "commands/progress.h"
#include "compat.h"
#include "copy/copy_load_internal.h"
#include "pgstat.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"

struct PgosReader
{
	PgosLoad			*load;
	const PgosPlan		*plan;
	PgosCopyInput		 input;
	CopyFromState		 cstate;
	ErrorContextCallback context;
	Datum				*file_values; /* of the file's columns */
	bool				*file_nulls;
	Datum				*values; /* of the relation's columns */
	bool				*nulls;
	int64				 first_row;
	int64				 rows;
	/* for the column that takes the row's number */
	FmgrInfo row_input;
	Oid		 row_ioparam;
	int32	 row_typmod;
};

/* The relation that the file's columns make. */
static Relation
pgos_reader_relation(const PgosLoad *load, const PgosPlan *plan)
{
	Relation  rel = palloc(sizeof(RelationData));
	TupleDesc desc = CreateTemplateTupleDesc(plan->column_count);

	for (int i = 0; i < plan->column_count; i++)
	{
		const PgosFileColumn *column = &plan->columns[i];
		AttrNumber			  attno = (AttrNumber) (i + 1);

		if (column->attno != 0)
		{
			Form_pg_attribute att = TupleDescAttr(RelationGetDescr(load->rel), column->attno - 1);

			TupleDescInitEntry(desc, attno, NameStr(att->attname), att->atttypid, att->atttypmod,
							   att->attndims);
		}
		else
			TupleDescInitEntry(desc, attno, column->name,
							   plan->object->format == PGOS_FORMAT_BINARY ? BYTEAOID : TEXTOID, -1,
							   0);
	}
	pgos_compat_tupledesc_finalize(desc);
	memcpy(rel, load->rel, sizeof(RelationData));
	rel->rd_att = desc;
	return rel;
}

PgosReader *
pgos_reader_begin(PgosLoad *load, const PgosPlan *plan, const PgosRowsInput *input)
{
	PgosReader	  *reader = palloc0(sizeof(PgosReader));
	int			   natts = RelationGetDescr(load->rel)->natts;
	PgosCopyInput *saved_input;

	reader->load = load;
	reader->plan = plan;
	reader->input.source = input->source;
	reader->input.load = load;
	reader->input.is_binary = plan->object->format == PGOS_FORMAT_BINARY;
	reader->first_row = input->first_row;
	reader->file_values = palloc0(plan->column_count * sizeof(Datum));
	reader->file_nulls = palloc0(plan->column_count * sizeof(bool));
	reader->values = palloc0(natts * sizeof(Datum));
	reader->nulls = palloc(natts * sizeof(bool));
	memset(reader->nulls, true, natts * sizeof(bool));
	for (int i = 0; i < plan->constant_count; i++)
	{
		const PgosConstant *constant = &plan->constants[i];

		reader->values[constant->attno - 1] = constant->value;
		reader->nulls[constant->attno - 1] = constant->isnull;
	}
	if (plan->row_attno != 0)
	{
		Form_pg_attribute att = TupleDescAttr(RelationGetDescr(load->rel), plan->row_attno - 1);
		Oid				  function;

		getTypeInputInfo(att->atttypid, &function, &reader->row_ioparam);
		fmgr_info(function, &reader->row_input);
		reader->row_typmod = att->atttypmod;
	}
	saved_input = pgos_copy_input_set(&reader->input);
	PG_TRY();
	{
		reader->cstate = BeginCopyFrom(NULL, pgos_reader_relation(load, plan), NULL, NULL, false,
									   pgos_copy_input_read, NIL, plan->options);
	}
	PG_FINALLY();
	{
		(void) pgos_copy_input_set(saved_input);
	}
	PG_END_TRY();
	reader->cstate->cur_lineno = input->first_line;
	reader->cstate->eol_type = (EolType) plan->eol;
	reader->context.callback = CopyFromErrorCallback;
	reader->context.arg = reader->cstate;
	load->cstate = reader->cstate;
	return reader;
}

static Datum
pgos_reader_row_number(PgosReader *reader)
{
	int64 number = reader->first_row + reader->rows;
	char  text[MAXINT8LEN + 1];

	if (reader->row_input.fn_oid == F_INT8IN)
		return Int64GetDatum(number);
	(void) pg_lltoa(number, text);
	return InputFunctionCall(&reader->row_input, text, reader->row_ioparam, reader->row_typmod);
}

/* The file's next row into file_values. */
static bool
pgos_reader_read(PgosReader *reader)
{
	PgosCopyInput *saved_input = pgos_copy_input_set(&reader->input);
	volatile bool  found = false;

	reader->load->inserting = false;
	reader->context.previous = error_context_stack;
	error_context_stack = &reader->context;
	PG_TRY();
	{
		found = NextCopyFrom(reader->cstate, NULL, reader->file_values, reader->file_nulls);
	}
	PG_FINALLY();
	{
		(void) pgos_copy_input_set(saved_input);
	}
	PG_END_TRY();
	error_context_stack = reader->context.previous;
	if (!found)
		pgos_copy_check_end(reader->cstate, &reader->input, reader->plan->object->url);
	return found;
}

bool
pgos_reader_next(PgosReader *reader, Datum *row)
{
	const PgosPlan *plan = reader->plan;
	TupleDesc		desc = RelationGetDescr(reader->load->rel);

	if (!pgos_reader_read(reader))
		return false;
	reader->rows++;
	pgstat_progress_update_param(PROGRESS_COPY_TUPLES_PROCESSED, reader->rows);
	reader->load->inserting = true;
	for (int i = 0; i < plan->column_count; i++)
	{
		AttrNumber attno = plan->columns[i].attno;

		if (attno != 0)
		{
			reader->values[attno - 1] = reader->file_values[i];
			reader->nulls[attno - 1] = reader->file_nulls[i];
		}
	}
	if (plan->row_attno != 0)
	{
		reader->values[plan->row_attno - 1] = pgos_reader_row_number(reader);
		reader->nulls[plan->row_attno - 1] = false;
	}
	*row = heap_copy_tuple_as_datum(heap_form_tuple(desc, reader->values, reader->nulls), desc);
	return true;
}

int64
pgos_reader_rows(const PgosReader *reader)
{
	return reader->rows;
}

void
pgos_reader_end(PgosReader *reader)
{
	reader->load->cstate = NULL;
	reader->load->inserting = false;
	EndCopyFrom(reader->cstate);
}
