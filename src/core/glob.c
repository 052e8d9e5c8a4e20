/*
 * glob.c
 *		Patterns over object keys: compiled to a small automaton, whose states are all followed at once.
 *
 * A pattern is at most a few hundred bytes, so its states fit into a few words of a bit set.  For each
 * character of a key the set of states is moved on; no backtracking, so no pattern is slow.
 */
#include "core/glob.h"

#include "mb/pg_wchar.h"

typedef enum NodeKind
{
	NODE_CHAR,	   /* one character: lo */
	NODE_ANY,	   /* one character but '/' */
	NODE_ANYTHING, /* one character */
	NODE_CLASS,	   /* one of the ranges, or none of them if negated; never '/' */
	NODE_FORK,	   /* goes on at next and at other without a character */
	NODE_END
} NodeKind;

/* A node and where to go on behind it.  NODE_CLASS has its ranges in glob->ranges[first .. first + count). */
typedef struct Node
{
	NodeKind kind;
	bool	 negated;
	uint32	 lo;
	int		 first;
	int		 count;
	int		 next;
	int		 other;
} Node;

typedef struct Range
{
	uint32 lo;
	uint32 hi;
} Range;

struct PgosGlob
{
	char  *prefix;
	Node  *nodes;
	int	   nnodes;
	int	   nodes_size;
	Range *ranges;
	int	   nranges;
	int	   ranges_size;
	int	   start;
	/* working memory of a match: two sets of nodes, a stack */
	uint64 *now;
	uint64 *then;
	int	   *stack;
};

/* Deeper nesting of braces than this is refused, so that compiling cannot overflow the stack. */
#define MAX_DEPTH 32

typedef struct Parser
{
	PgosGlob   *glob;
	const char *begin;
	const char *p;
	const char *problem;
	int			depth;
} Parser;

/* One character of UTF-8, or one byte (as a code beyond Unicode) where the text is not UTF-8. */
static uint32
next_char(const char **p)
{
	const unsigned char *s = (const unsigned char *) *p;
	int					 len = pg_encoding_mblen(PG_UTF8, *p);

	for (int i = 1; i < len; i++)
	{
		if (s[i] == '\0')
			len = 1;
	}
	if (len > 1 && pg_utf8_islegal(s, len))
	{
		*p += len;
		return utf8_to_unicode(s);
	}
	(*p)++;
	return s[0] < 0x80 ? s[0] : 0x110000 + s[0];
}

static int
add_node(PgosGlob *glob, NodeKind kind, int next)
{
	Node *node;

	if (glob->nnodes == glob->nodes_size)
	{
		glob->nodes_size = glob->nodes_size * 2 + 16;
		glob->nodes = glob->nodes == NULL ? palloc(glob->nodes_size * sizeof(Node))
										  : repalloc(glob->nodes, glob->nodes_size * sizeof(Node));
	}
	node = &glob->nodes[glob->nnodes];
	memset(node, 0, sizeof(*node));
	node->kind = kind;
	node->next = next;
	node->other = -1;
	return glob->nnodes++;
}

static void
add_range(PgosGlob *glob, uint32 lo, uint32 hi)
{
	if (glob->nranges == glob->ranges_size)
	{
		glob->ranges_size = glob->ranges_size * 2 + 8;
		glob->ranges = glob->ranges == NULL
						   ? palloc(glob->ranges_size * sizeof(Range))
						   : repalloc(glob->ranges, glob->ranges_size * sizeof(Range));
	}
	glob->ranges[glob->nranges].lo = lo;
	glob->ranges[glob->nranges].hi = hi;
	glob->nranges++;
}

/* The end of a piece under construction: its last node's next is still open. */
typedef struct Piece
{
	int first;
	int last;
} Piece;

static void
append_piece(PgosGlob *glob, Piece *sequence, Piece piece)
{
	if (sequence->first < 0)
		sequence->first = piece.first;
	else
		glob->nodes[sequence->last].next = piece.first;
	sequence->last = piece.last;
}

/* Zero or more characters of the kind. */
static Piece
repeated(PgosGlob *glob, NodeKind kind)
{
	Piece piece;
	int	  character;

	piece.first = piece.last = add_node(glob, NODE_FORK, -1);
	character = add_node(glob, kind, piece.first);
	glob->nodes[piece.first].other = character;
	return piece;
}

/* A "**" and '/' at the beginning of a component: nothing, or anything that ends in '/'. */
static Piece
folders(PgosGlob *glob)
{
	Piece piece;
	Piece anything;
	int	  slash;

	piece.first = add_node(glob, NODE_FORK, -1);
	piece.last = add_node(glob, NODE_FORK, -1);
	anything = repeated(glob, NODE_ANYTHING);
	slash = add_node(glob, NODE_CHAR, piece.last);
	glob->nodes[slash].lo = '/';
	glob->nodes[anything.last].next = slash;
	glob->nodes[piece.first].next = piece.last;
	glob->nodes[piece.first].other = anything.first;
	return piece;
}

/* "[...]", behind its bracket. */
static bool
parse_class(Parser *parser, Piece *piece)
{
	PgosGlob *glob = parser->glob;
	int		  index = add_node(glob, NODE_CLASS, -1);
	bool	  first = true;

	glob->nodes[index].first = glob->nranges;
	if (*parser->p == '!' || *parser->p == '^')
	{
		glob->nodes[index].negated = true;
		parser->p++;
	}
	for (;; first = false)
	{
		uint32 lo;
		uint32 hi;

		if (*parser->p == '\0')
		{
			parser->problem = "The pattern has a \"[\" without its \"]\".";
			return false;
		}
		if (*parser->p == ']' && !first)
			break;
		if (*parser->p == '\\' && parser->p[1] != '\0')
			parser->p++;
		lo = hi = next_char(&parser->p);
		if (*parser->p == '-' && parser->p[1] != ']' && parser->p[1] != '\0')
		{
			parser->p++;
			if (*parser->p == '\\' && parser->p[1] != '\0')
				parser->p++;
			hi = next_char(&parser->p);
			if (hi < lo)
			{
				parser->problem =
					"The pattern has a range of characters whose end comes before its beginning.";
				return false;
			}
		}
		add_range(glob, lo, hi);
	}
	parser->p++;
	glob->nodes[index].count = glob->nranges - glob->nodes[index].first;
	piece->first = piece->last = index;
	return true;
}

static bool parse_sequence(Parser *parser, Piece *result);

/* "{...}", behind its brace. */
static bool
parse_alternatives(Parser *parser, Piece *piece)
{
	PgosGlob *glob = parser->glob;
	int		  end = add_node(glob, NODE_FORK, -1);
	int		  fork = -1;

	if (++parser->depth > MAX_DEPTH)
	{
		parser->problem = "The pattern has braces nested too deeply.";
		return false;
	}
	piece->last = end;
	for (;;)
	{
		Piece alternative;
		int	  previous = fork;

		fork = add_node(glob, NODE_FORK, -1);
		if (previous < 0)
			piece->first = fork;
		else
			glob->nodes[previous].other = fork;
		if (!parse_sequence(parser, &alternative))
			return false;
		glob->nodes[fork].next = alternative.first;
		glob->nodes[alternative.last].next = end;
		if (*parser->p == '\0')
		{
			parser->problem = "The pattern has a \"{\" without its \"}\".";
			return false;
		}
		if (*parser->p++ == '}')
			break;
	}
	parser->depth--;
	return true;
}

/* Up to the end of the pattern, or in braces up to (not including) ',' or '}'. */
static bool
parse_sequence(Parser *parser, Piece *result)
{
	PgosGlob *glob = parser->glob;

	/* something to hang the rest on, and all that there is of an empty alternative */
	result->first = result->last = add_node(glob, NODE_FORK, -1);
	while (*parser->p != '\0')
	{
		Piece piece;

		if (parser->depth > 0 && (*parser->p == ',' || *parser->p == '}'))
			break;
		if (parser->p[0] == '*' && parser->p[1] == '*')
		{
			bool at_start = parser->p == parser->begin || parser->p[-1] == '/';

			while (*parser->p == '*')
				parser->p++;
			if (at_start && *parser->p == '/')
			{
				parser->p++;
				piece = folders(glob);
			}
			else
				piece = repeated(glob, NODE_ANYTHING);
		}
		else if (*parser->p == '*')
		{
			parser->p++;
			piece = repeated(glob, NODE_ANY);
		}
		else if (*parser->p == '?')
		{
			parser->p++;
			piece.first = piece.last = add_node(glob, NODE_ANY, -1);
		}
		else if (*parser->p == '[')
		{
			parser->p++;
			if (!parse_class(parser, &piece))
				return false;
		}
		else if (*parser->p == '{')
		{
			parser->p++;
			if (!parse_alternatives(parser, &piece))
				return false;
		}
		else
		{
			if (*parser->p == '\\' && *++parser->p == '\0')
			{
				parser->problem = "The pattern ends in a backslash that escapes nothing.";
				return false;
			}
			piece.first = piece.last = add_node(glob, NODE_CHAR, -1);
			glob->nodes[piece.first].lo = next_char(&parser->p);
		}
		append_piece(glob, result, piece);
	}
	return true;
}

static bool
is_special(char c)
{
	return c == '*' || c == '?' || c == '[' || c == '{';
}

bool
pgos_glob_is_pattern(const char *path)
{
	for (; *path != '\0'; path++)
	{
		if (is_special(*path))
			return true;
	}
	return false;
}

void
pgos_glob_free(PgosGlob *glob)
{
	void *parts[] = {glob->prefix, glob->nodes, glob->ranges, glob->now, glob->then, glob->stack};

	for (int i = 0; i < lengthof(parts); i++)
	{
		if (parts[i] != NULL)
			pfree(parts[i]);
	}
	pfree(glob);
}

PgosGlob *
pgos_glob_compile(const char *pattern, const char **problem)
{
	PgosGlob   *glob = palloc0(sizeof(PgosGlob));
	Parser		parser = {glob, pattern, pattern, NULL, 0};
	Piece		all;
	Piece		end;
	const char *p;
	size_t		len = 0;
	size_t		words;

	if (!parse_sequence(&parser, &all))
	{
		*problem = parser.problem;
		pgos_glob_free(glob);
		return NULL;
	}
	if (parser.p > pattern && parser.p[-1] == '/')
		append_piece(glob, &all, repeated(glob, NODE_ANYTHING));
	end.first = end.last = add_node(glob, NODE_END, -1);
	append_piece(glob, &all, end);
	glob->start = all.first;

	glob->prefix = palloc(strlen(pattern) + 1);
	for (p = pattern; *p != '\0' && !is_special(*p); p++)
	{
		if (*p == '\\' && p[1] != '\0')
			p++;
		glob->prefix[len++] = *p;
	}
	glob->prefix[len] = '\0';

	words = (glob->nnodes + 63) / 64;
	glob->now = palloc(words * sizeof(uint64));
	glob->then = palloc(words * sizeof(uint64));
	glob->stack = palloc((2 * glob->nnodes + 2) * sizeof(int));
	*problem = NULL;
	return glob;
}

/* Adds a node, and what follows it without a character, to the set. */
static void
reach(PgosGlob *glob, uint64 *set, int node)
{
	int depth = 0;

	glob->stack[depth++] = node;
	while (depth > 0)
	{
		int i = glob->stack[--depth];

		if (i < 0 || (set[i / 64] & (UINT64CONST(1) << (i % 64))) != 0)
			continue;
		set[i / 64] |= UINT64CONST(1) << (i % 64);
		if (glob->nodes[i].kind == NODE_FORK)
		{
			glob->stack[depth++] = glob->nodes[i].next;
			glob->stack[depth++] = glob->nodes[i].other;
		}
	}
}

static bool
accepts(const PgosGlob *glob, const Node *node, uint32 c)
{
	bool in = false;

	switch (node->kind)
	{
		case NODE_CHAR:
			return c == node->lo;
		case NODE_ANY:
			return c != '/';
		case NODE_ANYTHING:
			return true;
		case NODE_CLASS:
			for (int i = 0; i < node->count && !in; i++)
			{
				const Range *range = &glob->ranges[node->first + i];

				in = c >= range->lo && c <= range->hi;
			}
			return c != '/' && in != node->negated;
		case NODE_FORK:
		case NODE_END:
			break;
	}
	return false;
}

bool
pgos_glob_match(PgosGlob *glob, const char *key)
{
	size_t words = (glob->nnodes + 63) / 64;
	int	   end = glob->nnodes - 1;

	if (strncmp(key, glob->prefix, strlen(glob->prefix)) != 0)
		return false;
	memset(glob->now, 0, words * sizeof(uint64));
	reach(glob, glob->now, glob->start);
	while (*key != '\0')
	{
		uint32	c = next_char(&key);
		uint64 *swap;
		bool	any = false;

		memset(glob->then, 0, words * sizeof(uint64));
		for (size_t w = 0; w < words; w++)
		{
			uint64 bits = glob->now[w];

			for (int i = (int) w * 64; bits != 0; i++, bits >>= 1)
			{
				if ((bits & 1) != 0 && accepts(glob, &glob->nodes[i], c))
				{
					reach(glob, glob->then, glob->nodes[i].next);
					any = true;
				}
			}
		}
		if (!any)
			return false;
		swap = glob->now;
		glob->now = glob->then;
		glob->then = swap;
	}
	return (glob->now[end / 64] & (UINT64CONST(1) << (end % 64))) != 0;
}

const char *
pgos_glob_prefix(const PgosGlob *glob)
{
	return glob->prefix;
}

bool
pgos_glob_is_hidden(const char *key, size_t prefix_len)
{
	const char *component = key;

	for (;;)
	{
		const char *slash = strchr(component, '/');

		if ((size_t) (component - key) >= prefix_len && (*component == '_' || *component == '.'))
		{
			const char *equals = strchr(component, '=');

			if (!(slash != NULL && equals != NULL && equals < slash))
				return true;
		}
		if (slash == NULL)
			return false;
		component = slash + 1;
	}
}
