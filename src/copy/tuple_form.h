/*
 * tuple_form.h
 *		Heap tuples out of values, as heap_form_tuple() makes them, in one pass.
 */
#ifndef PGOS_TUPLE_FORM_H
#define PGOS_TUPLE_FORM_H

#include "postgres.h"

#include "access/htup.h"
#include "access/tupdesc.h"

typedef struct PgosTupleLayout PgosTupleLayout;

/* Of the relation's rows; in the current memory context. */
extern PgosTupleLayout *pgos_tuple_layout_new(TupleDesc desc);

/* A tuple in the current memory context, for heap_freetuple(): byte for byte that of heap_form_tuple(). */
extern HeapTuple pgos_tuple_form(const PgosTupleLayout *layout, Datum *values, bool *isnull);

#endif
