/*
 * run.c
 *		What push and pull share: progress counters, encodings of names.
 *
 * Runs in workers (and the encodings in backends).  The progress functions never raise.
 */
#include "postgres.h"

#include "access/xact.h"
#include "compat.h"
#include "executor/spi.h"
#include "foreign/foreign.h"
#include "job/run.h"
#include "job/shmem.h"
#include "job/team.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "store/store.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"

void
pgos_progress_reset(void)
{
	PgosSlot *slot = pgos_my_slot;

	if (slot == NULL)
		return;
	pg_atomic_write_u64(&slot->rows, 0);
	pg_atomic_write_u64(&slot->raw_bytes, 0);
	pg_atomic_write_u64(&slot->stored_bytes, 0);
	pg_atomic_write_u64(&slot->parts, 0);
	pg_atomic_write_u64(&slot->done_units, 0);
	pg_atomic_write_u64(&slot->total_units, 0);
}

void
pgos_progress_rows(int64 rows)
{
	if (pgos_my_slot != NULL)
		pg_atomic_write_u64(&pgos_my_slot->rows, (uint64) rows);
}

void
pgos_progress_bytes(int64 raw_bytes, int64 stored_bytes, int parts)
{
	if (pgos_my_slot == NULL)
		return;
	pg_atomic_write_u64(&pgos_my_slot->raw_bytes, (uint64) raw_bytes);
	pg_atomic_write_u64(&pgos_my_slot->stored_bytes, (uint64) stored_bytes);
	pg_atomic_write_u64(&pgos_my_slot->parts, (uint64) parts);
}

void
pgos_progress_percent(int64 done_units, int64 total_units)
{
	if (pgos_my_slot == NULL)
		return;
	pg_atomic_write_u64(&pgos_my_slot->done_units, (uint64) done_units);
	pg_atomic_write_u64(&pgos_my_slot->total_units, (uint64) total_units);
}

/* Conversions look into the catalogs, so they need a transaction; names are converted outside of one too. */
static char *
pgos_text_convert(const char *text, size_t len, bool to_utf8)
{
	MemoryContext context = CurrentMemoryContext;
	bool		  own = !IsTransactionState();
	char		 *result;

	if (GetDatabaseEncoding() == PG_UTF8 || GetDatabaseEncoding() == PG_SQL_ASCII)
		return pnstrdup(text, len);
	if (own)
		StartTransactionCommand();
	result = to_utf8 ? pg_server_to_any(text, (int) len, PG_UTF8)
					 : pg_any_to_server(text, (int) len, PG_UTF8);
	result = result == text ? MemoryContextStrdup(context, pnstrdup(text, len))
							: MemoryContextStrdup(context, result);
	if (own)
	{
		CommitTransactionCommand();
		MemoryContextSwitchTo(context);
	}
	return result;
}

char *
pgos_text_to_utf8(const char *text)
{
	return pgos_text_convert(text, strlen(text), true);
}

char *
pgos_text_from_utf8(const char *text, size_t len)
{
	return pgos_text_convert(text, len, false);
}

void
pgos_run_open_store(PgosRun *run)
{
	PgosJob *job = run->job;

	StartTransactionCommand();
	MemoryContextSwitchTo(run->context);
	if (GetForeignServerExtended(job->serverid, FSV_MISSING_OK) == NULL)
		ereport(ERROR, (errcode(ERRCODE_UNDEFINED_OBJECT),
						errmsg("server \"%s\" does not exist any more", job->server),
						errdetail("It was dropped after the job was enqueued.")));
	if (pgos_compat_server_aclcheck(job->serverid, GetUserId(), ACL_USAGE) != ACLCHECK_OK)
		ereport(ERROR, (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
						errmsg("permission denied for foreign server %s", job->server),
						errdetail("The right was taken away after the job was enqueued.")));
	run->store = pgos_store_open(job->serverid, GetUserId());
	CommitTransactionCommand();
	MemoryContextSwitchTo(run->context);
}

void
pgos_run_note_engine(PgosRun *run, const char *copy_reason)
{
	PgosJobResult *result = &run->result;
	MemoryContext  old;

	if (copy_reason == NULL)
	{
		if (result->engine == NULL)
			result->engine = "direct";
		return;
	}
	if (result->engine != NULL && strcmp(result->engine, "copy") == 0)
		return;
	result->engine = "copy";
	old = MemoryContextSwitchTo(run->context);
	result->note = result->note == NULL
					   ? psprintf("engine copy: %s", copy_reason)
					   : psprintf("%s; engine copy: %s", result->note, copy_reason);
	MemoryContextSwitchTo(old);
}

/* DELETE and not TRUNCATE: that would lock out readers, and show an empty table to older snapshots. */
void
pgos_run_delete_rows(Relation rel)
{
	char *sql = psprintf("DELETE FROM %s",
						 quote_qualified_identifier(get_namespace_name(RelationGetNamespace(rel)),
													RelationGetRelationName(rel)));

	SPI_connect();
	if (SPI_execute(sql, false, 0) != SPI_OK_DELETE)
		elog(ERROR, "could not empty the table");
	SPI_finish();
	CommandCounterIncrement();
}

void
pgos_run_utility(const char *sql)
{
	SPI_connect();
	if (SPI_execute(sql, false, 0) != SPI_OK_UTILITY)
		elog(ERROR, "not a utility command: %s", sql);
	SPI_finish();
	CommandCounterIncrement();
}

void
pgos_run_stop_team(PgosRun *run)
{
	PgosTeam *team = run->team;

	if (team == NULL || team->leader_pid != MyProcPid)
		return;
	pgos_team_stop(team);
	run->team = NULL;
	pgos_team_release(team);
}

void
pgos_run_dataset_changed(PgosRun *run)
{
	ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					errmsg("dataset \"%s\" has changed during the pull",
						   pgos_store_url(run->store, run->team->folder)),
					errhint("It was replaced by another push. Pull again.")));
	pg_unreachable();
}
