/*
 * delayproxy.c
 *		A TCP proxy on 127.0.0.1 that makes the other side look far away.
 *
 *		delayproxy UPSTREAM_PORT DELAY_MS WINDOW_KB
 *
 * Every byte arrives DELAY_MS after it was sent, in both directions, and a connection has at most WINDOW_KB
 * under way in one direction: what was sent counts until its acknowledgement would be back, 2 * DELAY_MS
 * later.  So one connection carries at most WINDOW_KB per 2 * DELAY_MS, as over a real long line, and more of
 * them carry more.  A new connection is made with one round trip.  There is no loss and no slow start.
 *
 * Prints the port that it listens on, then serves until it is killed.  One process, one thread, epoll.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define PIECE_SIZE (64 * 1024)
#define MAX_CONNECTIONS 1024

/* Bytes that were read together. */
typedef struct Piece
{
	struct Piece *next;
	int64_t		  read_at; /* us */
	size_t		  len;
	size_t		  sent;
	char		  data[];
} Piece;

/* Sizes of what was read, until its acknowledgement would be back. */
typedef struct Ack
{
	struct Ack *next;
	int64_t		read_at;
	size_t		len;
} Ack;

typedef struct Direction
{
	int		from;
	int		to;
	Piece  *first;
	Piece  *last;
	Ack	   *first_ack;
	Ack	   *last_ack;
	size_t	under_way; /* bytes, <= window */
	bool	readable;  /* epoll said so and nothing has said otherwise since */
	bool	writable;
	bool	at_end; /* the sender has closed */
	bool	closed; /* and the receiver was told */
	int64_t end_at;
} Direction;

typedef struct Connection
{
	bool	  in_use;
	bool	  broken;
	int64_t	  made_at;
	Direction up; /* client to server */
	Direction down;
} Connection;

static Connection connections[MAX_CONNECTIONS];
static int64_t	  delay;  /* us */
static size_t	  window; /* bytes */
static int		  epoll_fd;
static char		  buffer[PIECE_SIZE];

static int64_t
now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t) ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

static void
fail(const char *what)
{
	fprintf(stderr, "delayproxy: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void *
allocate(size_t size)
{
	void *p = malloc(size);

	if (p == NULL)
		fail("malloc");
	return p;
}

/* ---------------------------------------------------------------- one direction */

/* Takes what has come in, as far as the window allows. */
static void
take(Connection *c, Direction *d, int64_t t)
{
	while (d->readable && !d->at_end && d->under_way < window)
	{
		size_t	room = window - d->under_way;
		ssize_t n = recv(d->from, buffer, room < PIECE_SIZE ? room : PIECE_SIZE, 0);
		Piece  *piece;
		Ack	   *ack;

		if (n < 0)
		{
			if (errno == EAGAIN)
				d->readable = false;
			else if (errno != EINTR)
				c->broken = true;
			return;
		}
		if (n == 0)
		{
			d->at_end = true;
			d->end_at = t;
			return;
		}
		piece = allocate(sizeof(Piece) + n);
		memset(piece, 0, sizeof(Piece));
		memcpy(piece->data, buffer, n);
		piece->len = n;
		piece->read_at = t;
		if (d->last != NULL)
			d->last->next = piece;
		else
			d->first = piece;
		d->last = piece;
		ack = allocate(sizeof(Ack));
		ack->next = NULL;
		ack->read_at = t;
		ack->len = n;
		if (d->last_ack != NULL)
			d->last_ack->next = ack;
		else
			d->first_ack = ack;
		d->last_ack = ack;
		d->under_way += n;
	}
}

/* Delivers what has been under way for long enough. */
static void
give(Connection *c, Direction *d, int64_t t)
{
	while (d->first_ack != NULL && d->first_ack->read_at + 2 * delay <= t)
	{
		Ack *ack = d->first_ack;

		d->first_ack = ack->next;
		if (ack->next == NULL)
			d->last_ack = NULL;
		d->under_way -= ack->len;
		free(ack);
	}
	while (d->writable && d->first != NULL && d->first->read_at + delay <= t)
	{
		Piece  *piece = d->first;
		ssize_t n = send(d->to, piece->data + piece->sent, piece->len - piece->sent, MSG_NOSIGNAL);

		if (n < 0)
		{
			if (errno == EAGAIN)
				d->writable = false;
			else if (errno != EINTR)
				c->broken = true;
			return;
		}
		piece->sent += n;
		if (piece->sent < piece->len)
			continue;
		d->first = piece->next;
		if (d->first == NULL)
			d->last = NULL;
		free(piece);
	}
	if (d->at_end && !d->closed && d->first == NULL && d->end_at + delay <= t)
	{
		(void) shutdown(d->to, SHUT_WR);
		d->closed = true;
	}
}

/* When something is to be done in this direction although nothing has happened; INT64_MAX for never. */
static int64_t
next_time(const Direction *d)
{
	int64_t next = INT64_MAX;

	if (d->first != NULL && d->writable)
		next = d->first->read_at + delay;
	if (d->at_end && !d->closed && d->first == NULL && d->end_at + delay < next)
		next = d->end_at + delay;
	if (d->readable && !d->at_end && d->under_way >= window &&
		d->first_ack->read_at + 2 * delay < next)
		next = d->first_ack->read_at + 2 * delay;
	return next;
}

static void
forget(Direction *d)
{
	while (d->first != NULL)
	{
		Piece *piece = d->first;

		d->first = piece->next;
		free(piece);
	}
	while (d->first_ack != NULL)
	{
		Ack *ack = d->first_ack;

		d->first_ack = ack->next;
		free(ack);
	}
}

/* ---------------------------------------------------------------- connections */

static void
watch(int fd, uint32_t index, bool is_server)
{
	struct epoll_event event = {0};
	int				   one = 1;

	(void) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	(void) fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
	event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
	event.data.u64 = ((uint64_t) index << 1) | is_server;
	if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0)
		fail("epoll_ctl");
}

static void
open_connection(int client, const struct sockaddr_in *upstream, int64_t t)
{
	uint32_t	index = 0;
	Connection *c;
	int			server = socket(AF_INET, SOCK_STREAM, 0);

	while (index < MAX_CONNECTIONS && connections[index].in_use)
		index++;
	if (index == MAX_CONNECTIONS || server < 0 ||
		connect(server, (const struct sockaddr *) upstream, sizeof(*upstream)) != 0)
	{
		close(client);
		if (server >= 0)
			close(server);
		return;
	}
	c = &connections[index];
	memset(c, 0, sizeof(*c));
	c->in_use = true;
	c->made_at = t;
	c->up.from = c->down.to = client;
	c->up.to = c->down.from = server;
	watch(client, index, false);
	watch(server, index, true);
}

static void
close_connection(Connection *c)
{
	close(c->up.from);
	close(c->up.to);
	forget(&c->up);
	forget(&c->down);
	c->in_use = false;
}

/* The handshake's round trip comes before the first byte. */
static bool
is_made(const Connection *c, int64_t t)
{
	return c->made_at + 2 * delay <= t;
}

static void
serve(Connection *c, int64_t t)
{
	if (!is_made(c, t))
		return;
	give(c, &c->up, t);
	give(c, &c->down, t);
	take(c, &c->up, t);
	take(c, &c->down, t);
	if (c->broken || (c->up.closed && c->down.closed))
		close_connection(c);
}

static int
wait_ms(int64_t t)
{
	int64_t next = INT64_MAX;

	for (int i = 0; i < MAX_CONNECTIONS; i++)
	{
		Connection *c = &connections[i];
		int64_t		mine;

		if (!c->in_use)
			continue;
		if (!is_made(c, t))
			mine = c->made_at + 2 * delay;
		else
		{
			int64_t up = next_time(&c->up);
			int64_t down = next_time(&c->down);

			mine = up < down ? up : down;
		}
		if (mine < next)
			next = mine;
	}
	if (next == INT64_MAX)
		return -1;
	return next <= t ? 0 : (int) ((next - t + 999) / 1000);
}

int
main(int argc, char **argv)
{
	struct sockaddr_in upstream = {0};
	struct sockaddr_in own = {0};
	socklen_t		   len = sizeof(own);
	struct epoll_event events[256];
	int				   listener = socket(AF_INET, SOCK_STREAM, 0);

	if (argc != 4)
	{
		fprintf(stderr, "usage: delayproxy UPSTREAM_PORT DELAY_MS WINDOW_KB\n");
		return 2;
	}
	upstream.sin_family = own.sin_family = AF_INET;
	upstream.sin_addr.s_addr = own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	upstream.sin_port = htons((uint16_t) atoi(argv[1]));
	delay = (int64_t) atoi(argv[2]) * 1000;
	window = (size_t) atoi(argv[3]) * 1024;
	if (listener < 0 || bind(listener, (struct sockaddr *) &own, sizeof(own)) != 0 ||
		listen(listener, 256) != 0 || getsockname(listener, (struct sockaddr *) &own, &len) != 0)
		fail("listen");
	(void) fcntl(listener, F_SETFL, O_NONBLOCK);
	epoll_fd = epoll_create1(0);
	events[0].events = EPOLLIN;
	events[0].data.u64 = UINT64_MAX;
	if (epoll_fd < 0 || epoll_ctl(epoll_fd, EPOLL_CTL_ADD, listener, &events[0]) != 0)
		fail("epoll");
	printf("%d\n", ntohs(own.sin_port));
	fflush(stdout);

	for (;;)
	{
		int		n = epoll_wait(epoll_fd, events, 256, wait_ms(now()));
		int64_t t = now();

		for (int i = 0; i < n; i++)
		{
			uint64_t	what = events[i].data.u64;
			Connection *c;
			Direction  *in;
			Direction  *out;

			if (what == UINT64_MAX)
			{
				int client;

				while ((client = accept(listener, NULL, NULL)) >= 0)
					open_connection(client, &upstream, t);
				continue;
			}
			c = &connections[what >> 1];
			if (!c->in_use)
				continue;
			in = (what & 1) ? &c->down : &c->up;
			out = (what & 1) ? &c->up : &c->down;
			if (events[i].events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR))
				in->readable = true;
			if (events[i].events & (EPOLLOUT | EPOLLHUP | EPOLLERR))
				out->writable = true;
		}
		for (int i = 0; i < MAX_CONNECTIONS; i++)
		{
			if (connections[i].in_use)
				serve(&connections[i], t);
		}
	}
}
