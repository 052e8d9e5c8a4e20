# Shared by test/check, test/quickstart and test/versions (bash; sourced, not run): packages, users, private
# installations, and ending what was started.
#
# Sets ROOT (top of the tree).  Callers set -u.  Needs nothing but Debian's base system.
# shellcheck shell=bash

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

say()
{
	printf '\n== %s\n' "$*"
}

die()
{
	printf '%s: %s\n' "${0##*/}" "$*" >&2
	exit 1
}

as_root()
{
	if [ "$(id -u)" = 0 ]
	then
		"$@"
	elif command -v sudo >/dev/null
	then
		sudo -n "$@"
	else
		die "this needs root: $*"
	fi
}

# PostgreSQL refuses to run as root; whoever is not root runs it as himself.  "${AS_USER[@]}" COMMAND ... runs
# as TEST_USER; callers are in a directory that this user can enter.
if [ "$(id -u)" = 0 ]
then
	TEST_USER=postgres
	AS_USER=(runuser -u postgres --)
else
	TEST_USER=$(id -un)
	AS_USER=(env)
fi

# ---------------------------------------------------------------- packages

# Major version of PG_CONFIG if that is set, else of this Debian release.
pg_major()
{
	local n=''
	if [ -n "${PG_CONFIG:-}" ] && command -v "$PG_CONFIG" >/dev/null
	then
		n=$("$PG_CONFIG" --version | sed 's/^PostgreSQL \([0-9]*\).*/\1/')
	elif [[ ${PG_CONFIG:-} =~ /postgresql/([0-9]+)/ ]]
	then
		n=${BASH_REMATCH[1]}	# not installed yet
	else
		# shellcheck disable=SC1091
		case $(. /etc/os-release && echo "${VERSION_ID:-}") in
			12) n=15 ;;
			13) n=17 ;;
			*) n=$(apt-cache depends postgresql 2>/dev/null | sed -n 's/.*Depends: postgresql-\([0-9]*\)$/\1/p') ;;
		esac
	fi
	[ -n "$n" ] || die "cannot tell which PostgreSQL to use: set PG_CONFIG"
	echo "$n"
}

build_packages()
{
	echo gcc make libc6-dev "postgresql-$1" "postgresql-server-dev-$1" libcurl4-openssl-dev libzstd-dev \
		liblz4-dev zlib1g-dev libxml2-dev libkrb5-dev libssl-dev
}

test_packages()
{
	echo perl libipc-run-perl python3 python3-boto3 ceph-mon ceph-osd radosgw openssl gzip zstd lz4 procps
	# npm fetches DuckDB, which Debian does not have; other sources than Debian's bring it with nodejs
	command -v node >/dev/null || echo nodejs
	[ -n "${PGOBJSTORE_DUCKDB:-}" ] || command -v npm >/dev/null || echo npm
}

# Checks of the source that a newer Debian may lack in just these versions.
lint_packages()
{
	local p
	for p in clang clang-format-14 shellcheck
	do
		[ -n "$(apt-cache policy $p 2>/dev/null | sed -n 's/.*Candidate: \([0-9].*\)/\1/p')" ] && echo $p
	done
	return 0
}

missing_packages()
{
	local p
	for p in "$@"
	do
		[ "$(dpkg-query -W -f '${db:Status-Status}' "$p" 2>/dev/null)" = installed ] || echo "$p"
	done
}

apt_install()
{
	as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends \
		-o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 "$@" </dev/null
}

# install_packages PACKAGE ...: what is missing of it, and nothing at all when nothing is.
#
# A first installation of PostgreSQL on Debian makes and starts a cluster "main".  Nobody asked for one, so that
# is switched off for the time of the installation; clusters that exist are not touched.
install_packages()
{
	local missing off=/etc/postgresql-common/createcluster.d/zz-no-main-cluster.conf made='' log status=0
	missing=$(missing_packages "$@")
	[ -n "$missing" ] || return 0
	log=$(mktemp)
	# shellcheck disable=SC2086
	echo "installing:" $missing
	if ! ls /var/lib/dpkg/info/postgresql-[0-9]*.list >/dev/null 2>&1
	then
		[ -d "${off%/*}" ] || made=1
		as_root mkdir -p "${off%/*}"
		echo 'create_main_cluster = false' | as_root tee "$off" >/dev/null
	fi
	# shellcheck disable=SC2086
	apt_install $missing >"$log" 2>&1 ||
		{ as_root apt-get update -q </dev/null && apt_install $missing; } >"$log" 2>&1 || status=1
	as_root rm -f "$off"
	[ -z "$made" ] || as_root rmdir --ignore-fail-on-non-empty "${off%/*}"
	[ $status = 0 ] || { tail -n 30 "$log" >&2; rm -f "$log"; die "could not install the packages"; }
	rm -f "$log"
}

# Sets PG_CONFIG and PGBIN for major version $1, installed by Debian's packages or given by PG_CONFIG.
use_postgres()
{
	: "${PG_CONFIG:=/usr/lib/postgresql/$1/bin/pg_config}"
	command -v "$PG_CONFIG" >/dev/null || die "there is no $PG_CONFIG"
	PG_CONFIG=$(command -v "$PG_CONFIG")
	PGBIN=$("$PG_CONFIG" --bindir)
	export PG_CONFIG PGBIN
}

# copy_tree DIR: the sources without what a build or a run left there, owned by TEST_USER.
copy_tree()
{
	mkdir -p "$1"
	tar -C "$ROOT" --exclude=./.git --exclude='*.o' --exclude='*.so' --exclude='*.bc' --exclude=./results \
		--exclude=./regression.* --exclude=./tmp_check --exclude=./test/unit/build --exclude=node_modules \
		--exclude=__pycache__ -cf - . | tar -C "$1" --no-same-owner -xf -
	[ "$(id -u)" != 0 ] || chown -R "$TEST_USER" "$1"
}

# start_cluster DIR [LINE_OF_CONF ...]: a throwaway server in DIR/data, reached through the socket in DIR only.
start_cluster()
{
	local dir=$1 bin=${CLUSTER_BIN:-$PGBIN}
	shift
	"${AS_USER[@]}" mkdir -p "$dir"
	"${AS_USER[@]}" "$bin/initdb" -D "$dir/data" -A trust -U "$TEST_USER" -N --no-instructions >"$dir.initdb.log" 2>&1 ||
		{ cat "$dir.initdb.log" >&2; return 1; }
	printf '%s\n' "unix_socket_directories = '$dir'" "listen_addresses = ''" "port = 5432" \
		"shared_preload_libraries = 'pgobjstore'" "max_worker_processes = 16" "fsync = off" "$@" |
		"${AS_USER[@]}" tee -a "$dir/data/postgresql.conf" >/dev/null
	"${AS_USER[@]}" "$bin/pg_ctl" -D "$dir/data" -l "$dir/log" -w -t 60 start >"$dir.start.log" 2>&1 ||
		{ cat "$dir.start.log" "$dir/log" >&2; return 1; }
}

stop_cluster()
{
	"${AS_USER[@]}" "${CLUSTER_BIN:-$PGBIN}/pg_ctl" -D "$1/data" -m fast -w -t 60 stop >/dev/null 2>&1 ||
		"${AS_USER[@]}" "${CLUSTER_BIN:-$PGBIN}/pg_ctl" -D "$1/data" -m immediate -w -t 30 stop >/dev/null 2>&1
}

# ---------------------------------------------------------------- scratch directories

# make_run_dir NAME: sets RUN, a scratch directory that TEST_USER can read, and notes who owns it.
make_run_dir()
{
	RUN=$(mktemp -d "${TMPDIR:-/tmp}/$1.XXXXXX") || die "cannot make a scratch directory"
	chmod 755 "$RUN"
	[ "$(id -u)" != 0 ] || chown "$TEST_USER" "$RUN"
	echo "$$ $(start_time $$)" >"$RUN/owner"
}

start_time()
{
	sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -d ' ' -f 20
}

# end_processes DIR: ends every process that works inside DIR (servers have their data directory as working
# directory) and the object stores that were started there.  Nothing outside is looked at.
end_processes()
{
	local dir=$1 conf link found round
	for conf in "$dir"/s3/ceph.conf "$dir"/*/*/pgobjstore-s3-*/ceph.conf
	do
		[ ! -f "$conf" ] || "$ROOT/test/servers/radosgw" stop "${conf%/*}"
	done
	for round in QUIT KILL KILL
	do
		found=$(find /proc -maxdepth 2 -path '/proc/[0-9]*/cwd' -lname "$dir/*" 2>/dev/null)
		[ -n "$found" ] || break
		for link in $found
		do
			link=${link%/cwd}
			kill -$round "${link#/proc/}" 2>/dev/null
		done
		sleep 0.5
	done
}

# sweep_run_dirs NAME: ends and removes what runs that were killed left behind.
sweep_run_dirs()
{
	local dir pid since
	for dir in "${TMPDIR:-/tmp}/$1".??????
	do
		[ -O "$dir/owner" ] || continue
		read -r pid since <"$dir/owner" || continue
		[ "$(start_time "$pid")" = "$since" ] && continue
		echo "removing what an interrupted run left in $dir"
		end_processes "$dir"
		rm -rf "$dir"
	done
}
