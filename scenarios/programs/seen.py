"""A web server that answers with the address that it is asked from; for nat.toml."""

from http.server import BaseHTTPRequestHandler, HTTPServer
from socketserver import TCPServer


class Seen(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        answer = self.client_address[0].encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        pass


class Server(HTTPServer):
    # Without looking for its own name, for which there is no server.
    server_bind = TCPServer.server_bind


Server(("", 80), Seen).serve_forever()
