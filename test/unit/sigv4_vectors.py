"""Prints sigv4_vectors.h: signatures of odd keys and queries as botocore, an independent implementation,
computes them.  Paths are encoded by Python's urllib."""
import urllib.parse

import botocore.auth
import botocore.awsrequest
import botocore.credentials

ACCESS = "AKIAIOSFODNN7EXAMPLE"
SECRET = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
REGION = "eu-west-1"
NOW = "20231231T235958Z"

KEYS = [
    "plain", "a+b", "a b", " lead", "a=b", "a:b", "a@b", "a~b", "a%b", "a%2Fb", "a%20b", "a/b/c.csv.zst",
    "a*b", "a'b", 'a"b', "a(b)", "a!b", "a&b", "a,b", "a;b", "a?b", "a#b", "a[b]", "a{b}", "a|b", "a\\b", "a^b",
    "a`b", "a<b>", "a$b", "-._~", "\u00e4\u00f6\u00fc", "\u65e5\u672c\u8a9e/\u8868", "\U0001f418", "e\u0301",
    "x" * 1024, "\u20ac" * 341 + "x", "db/public.or%2Eders/20240101T000000Z-7/part-00000.csv.zst",
]
QUERIES = [
    [("uploads", "")],
    [("partNumber", "10"), ("uploadId", "a+b/c=d~e.f-g_h")],
    [("uploadId", "VXBsb2FkIElE/+=="), ("partNumber", "1")],
    [("list-type", "2"), ("prefix", "a/b c+d=\u00e4"), ("delimiter", "/"), ("encoding-type", "url"),
     ("continuation-token", "1ueGcxLPRx1Tr/XYExHnhbYLgveDs2J/wm36Hy4vbOwM=")],
    [("b", "2"), ("B", "1"), ("a", "3"), ("a-b", "4"), ("a.b", "5"), ("a_b", "6")],
    [("x/y z", "/"), ("response-content-type", "text/plain; charset=utf-8")],
]
HEADERS = [
    [],
    [("Range", "bytes=0-9")],
    [("If-None-Match", "*"), ("Content-Type", "application/zstd"), ("x-amz-meta-note", "two  blanks ")],
]


class FixedTime(botocore.auth.S3SigV4Auth):
    def _modify_request_before_signing(self, request):
        request.context["timestamp"] = NOW
        super()._modify_request_before_signing(request)


def c_string(text):
    out = ""
    for byte in text.encode():
        if chr(byte) in '"\\':
            out += "\\" + chr(byte)
        elif 32 <= byte < 127 and chr(byte) != "?":
            out += chr(byte)
        else:
            out += "\\%03o" % byte
    return '"%s"' % out


def sign(method, host, path, query, headers, token, payload_hash):
    request = botocore.awsrequest.AWSRequest(
        method=method, url="http://%s%s" % (host, path), params=dict(query), headers=dict(headers))
    request.headers["Host"] = host
    request.headers["X-Amz-Content-SHA256"] = payload_hash
    auth = FixedTime(botocore.credentials.Credentials(ACCESS, SECRET, token), "s3", REGION)
    auth.payload = lambda _request: payload_hash
    auth.add_auth(request)
    return request.headers["Authorization"].replace(", ", ","), auth.canonical_query_string(request)


def row(method, key, query, headers, token, payload_hash, host="bucket.example.com:9000"):
    path = "/" + urllib.parse.quote(key, safe="/-_.~")
    authorization, encoded = sign(method, host, path, query, headers, token, payload_hash)

    def pairs(items):
        return "{%s}" % ", ".join("{%s, %s}" % (c_string(k), c_string(v)) for k, v in items or [("", "")])

    print("\t{%s, %s,\n\t\t%s,\n\t\t%s, %d,\n\t\t%s, %d,\n\t\t%s, %s, %s,\n\t\t%s,\n\t\t%s}," % (
        c_string(method), c_string(host), c_string(key), pairs(query), len(query), pairs(headers),
        len(headers), c_string(token) if token else "NULL", c_string(payload_hash), c_string(path),
        c_string(encoded), c_string(authorization)))


print("/*")
print(" * sigv4_vectors.h")
print(" *\t\tExpected signatures, printed by sigv4_vectors.py with botocore.  Do not edit.")
print(" */")
print("static const SignVector sign_vectors[] = {")
EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
for number, k in enumerate(KEYS):
    row("PUT" if number % 2 else "GET", k, [], HEADERS[number % 3], None,
        "UNSIGNED-PAYLOAD" if number % 2 else EMPTY)
for number, q in enumerate(QUERIES):
    row("POST", "bucket/k+y", q, HEADERS[number % 3], None, EMPTY, host="127.0.0.1")
    row("PUT", "bucket/k+y", q, HEADERS[number % 3], "FwoGZXIvYXdzEJr//////////wEaDO+token/==", EMPTY, host="[::1]:7480")
print("};")
