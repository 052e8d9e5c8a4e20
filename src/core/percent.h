/*
 * percent.h
 *		Percent-encoding of RFC 3986, exactly as Signature Version 4 wants it, and the way back.
 *
 * Text is bytes here: UTF-8 is encoded byte by byte, no normalisation.  Memory is the caller's StringInfo.
 * Runs anywhere; raises nothing but out of memory.
 */
#ifndef PGOS_PERCENT_H
#define PGOS_PERCENT_H

#include "core/base.h"

/*
 * Appends text to out.  A-Z a-z 0-9 - . _ ~ stay, everything else becomes %XX with upper-case hex digits; a
 * '/' stays too with keep_slash (paths), and becomes %2F without (query names and values).
 */
extern void pgos_percent_encode(StringInfo out, const char *text, bool keep_slash);

/*
 * Appends the decoded text to out.  With plus_is_space a '+' is a blank, as in the answer to a listing with
 * encoding-type=url.  Returns false, with out as it was, for a '%' without two hex digits behind it and for
 * %00, which no C string can hold.
 */
extern bool pgos_percent_decode(StringInfo out, const char *text, bool plus_is_space);

#endif
