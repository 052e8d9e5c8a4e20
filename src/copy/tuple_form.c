/*
 * tuple_form.c
 *		Heap tuples out of values, as heap_form_tuple() makes them, in one pass.
 *
 * heap_form_tuple() goes over the columns three times (nulls, size, data) and looks each up in the descriptor.
 * Here what it needs to know of a column is in eight bytes, and the size is bounded instead of computed: a
 * tuple is made once for each row of a pull.
 *
 * Runs in a worker; may raise.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/tupmacs.h"
#include "copy/tuple_form.h"

typedef struct PgosTupleColumn
{
	int16 len;	 /* bytes, -1 for varlena, -2 for a C string */
	uint8 align; /* 1, 2, 4, 8 */
	bool  byval;
	bool  packable; /* a short header may be used */
} PgosTupleColumn;

struct PgosTupleLayout
{
	TupleDesc desc;
	int		  count;
	Size	  fixed; /* bytes of all columns of fixed length, with what alignment of any may add */
	PgosTupleColumn columns[FLEXIBLE_ARRAY_MEMBER];
};

static uint8
pgos_tuple_alignment(char typalign)
{
	switch (typalign)
	{
		case TYPALIGN_CHAR:
			return 1;
		case TYPALIGN_SHORT:
			return ALIGNOF_SHORT;
		case TYPALIGN_INT:
			return ALIGNOF_INT;
		default:
			return ALIGNOF_DOUBLE;
	}
}

PgosTupleLayout *
pgos_tuple_layout_new(TupleDesc desc)
{
	PgosTupleLayout *layout =
		palloc0(offsetof(PgosTupleLayout, columns) + desc->natts * sizeof(PgosTupleColumn));

	layout->desc = desc;
	layout->count = desc->natts;
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);
		PgosTupleColumn	 *col = &layout->columns[i];

		col->len = att->attlen;
		col->align = pgos_tuple_alignment(att->attalign);
		col->byval = att->attbyval;
		col->packable = att->attlen == -1 && att->attstorage != TYPSTORAGE_PLAIN;
		layout->fixed += col->align - 1 + Max(att->attlen, 0);
	}
	return layout;
}

/* At least the bytes of the data; 0: a value is not in line, which heap_form_tuple() knows how to treat. */
static Size
pgos_tuple_bound(const PgosTupleLayout *layout, const Datum *values, const bool *isnull,
				 bool *has_null)
{
	Size bound = layout->fixed;

	for (int i = 0; i < layout->count; i++)
	{
		if (isnull[i])
			*has_null = true;
		else if (layout->columns[i].len == -1)
		{
			if (unlikely(VARATT_IS_EXTERNAL(DatumGetPointer(values[i]))))
				return 0;
			bound += VARSIZE_ANY(DatumGetPointer(values[i]));
		}
		else if (layout->columns[i].len == -2)
			bound += strlen(DatumGetCString(values[i])) + 1;
	}
	return Max(bound, 1);
}

static inline char *
pgos_tuple_align(char *data, char *begin, uint8 align)
{
	char *aligned = begin + TYPEALIGN(align, data - begin);

	while (data < aligned)
		*data++ = '\0';
	return data;
}

/* Writes one value; returns the end. */
static inline char *
pgos_tuple_put(const PgosTupleColumn *col, char *data, char *begin, Datum value)
{
	char *from = DatumGetPointer(value);
	Size  len = col->len;

	if (col->byval)
	{
		data = pgos_tuple_align(data, begin, col->align);
		store_att_byval(data, value, col->len);
		return data + len;
	}
	if (col->len == -1 && col->packable && VARATT_CAN_MAKE_SHORT(from))
	{
		len = VARATT_CONVERTED_SHORT_SIZE(from);
		SET_VARSIZE_SHORT(data, len);
		memcpy(data + 1, VARDATA(from), len - 1);
		return data + len;
	}
	if (col->len == -1)
	{
		/* a short header stands where it is */
		if (!VARATT_IS_SHORT(from))
			data = pgos_tuple_align(data, begin, col->align);
		len = VARSIZE_ANY(from);
	}
	else
	{
		data = pgos_tuple_align(data, begin, col->align);
		if (col->len == -2)
			len = strlen(from) + 1;
	}
	memcpy(data, from, len);
	return data + len;
}

HeapTuple
pgos_tuple_form(const PgosTupleLayout *layout, Datum *values, bool *isnull)
{
	bool			has_null = false;
	Size			bound = pgos_tuple_bound(layout, values, isnull, &has_null);
	Size			head = SizeofHeapTupleHeader;
	HeapTuple		tuple;
	HeapTupleHeader header;
	char		   *begin;
	char		   *data;

	if (bound == 0)
		return heap_form_tuple(layout->desc, values, isnull);
	if (has_null)
		head += BITMAPLEN(layout->count);
	head = MAXALIGN(head);
	tuple = palloc(HEAPTUPLESIZE + head + bound);
	tuple->t_data = header = (HeapTupleHeader) ((char *) tuple + HEAPTUPLESIZE);
	memset(header, 0, head);
	ItemPointerSetInvalid(&tuple->t_self);
	tuple->t_tableOid = InvalidOid;
	ItemPointerSetInvalid(&header->t_ctid);
	HeapTupleHeaderSetNatts(header, layout->count);
	header->t_hoff = head;

	begin = data = (char *) header + head;
	for (int i = 0; i < layout->count; i++)
	{
		const PgosTupleColumn *col = &layout->columns[i];

		if (isnull[i])
			continue;
		if (has_null)
			header->t_bits[i >> 3] |= 1 << (i & 7);
		if (!col->byval && col->len < 0)
			header->t_infomask |= HEAP_HASVARWIDTH;
		data = pgos_tuple_put(col, data, begin, values[i]);
	}
	if (has_null)
		header->t_infomask |= HEAP_HASNULL;
	tuple->t_len = data - (char *) header;
	HeapTupleHeaderSetDatumLength(header, tuple->t_len);
	HeapTupleHeaderSetTypeId(header, layout->desc->tdtypeid);
	HeapTupleHeaderSetTypMod(header, layout->desc->tdtypmod);
	return tuple;
}
