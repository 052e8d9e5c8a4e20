/*
 * role_settings.c
 *		Compares the versions of the rows in pg_db_role_setting that are about this database and role.
 *
 * Runs in a worker, in a transaction; raises.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/indexing.h"
#include "catalog/pg_db_role_setting.h"
#include "common/hashfn.h"
#include "job/role_settings.h"
#include "miscadmin.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"

/* Adds the row of the database and role, if there is one; InvalidOid stands for any. */
static uint64
pgos_role_settings_add(uint64 hash, Relation rel, Oid database, Oid role)
{
	ScanKeyData keys[2];
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&keys[0], Anum_pg_db_role_setting_setdatabase, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(database));
	ScanKeyInit(&keys[1], Anum_pg_db_role_setting_setrole, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(role));
	scan = systable_beginscan(rel, DbRoleSettingDatidRolidIndexId, true, NULL, 2, keys);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		uint32 version[4] = {HeapTupleHeaderGetRawXmin(tuple->t_data),
							 ItemPointerGetBlockNumber(&tuple->t_self),
							 ItemPointerGetOffsetNumber(&tuple->t_self), 0};

		hash = hash_bytes_extended((unsigned char *) version, sizeof(version), hash);
	}
	systable_endscan(scan);
	/* a row that is not there counts too */
	return hash_combine64(hash, 1);
}

bool
pgos_role_settings_changed(Oid role)
{
	static bool	  known = false;
	static uint64 before;
	Relation	  rel = table_open(DbRoleSettingRelationId, AccessShareLock);
	uint64		  now = 0;
	bool		  changed;

	now = pgos_role_settings_add(now, rel, MyDatabaseId, role);
	now = pgos_role_settings_add(now, rel, InvalidOid, role);
	now = pgos_role_settings_add(now, rel, MyDatabaseId, InvalidOid);
	now = pgos_role_settings_add(now, rel, InvalidOid, InvalidOid);
	table_close(rel, AccessShareLock);
	changed = known && now != before;
	before = now;
	known = true;
	return changed;
}
