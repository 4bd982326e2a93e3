package io.github.bursar.client;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicInteger;

/** A server that behaves as badly as it is told, and keeps what it was sent. */
final class FaultServer implements AutoCloseable {
  /** What it does with a connection after the request was read. */
  interface Fault {
    void answer(OutputStream out, Socket socket) throws IOException, InterruptedException;
  }

  final List<String> requests = new CopyOnWriteArrayList<>();
  final AtomicInteger connections = new AtomicInteger();
  private final ServerSocket listener;
  private final List<Socket> open = new CopyOnWriteArrayList<>();
  private final Fault fault;

  FaultServer(Fault fault) throws IOException {
    this.fault = fault;
    listener = new ServerSocket(0, 50, InetAddress.getByName("127.0.0.1"));
    Thread t = new Thread(this::accept);
    t.setDaemon(true);
    t.start();
  }

  static Fault text(String status, String headers, String body) {
    return (out, s) -> {
      byte[] b = body.getBytes(StandardCharsets.UTF_8);
      out.write(("HTTP/1.1 " + status + "\r\nContent-Length: " + b.length + "\r\nConnection: close\r\n" + headers + "\r\n").getBytes());
      out.write(b);
    };
  }

  String url() {
    return "http://127.0.0.1:" + listener.getLocalPort();
  }

  private void accept() {
    while (!listener.isClosed()) {
      try {
        Socket s = listener.accept();
        connections.incrementAndGet();
        open.add(s);
        Thread t = new Thread(() -> serve(s));
        t.setDaemon(true);
        t.start();
      } catch (IOException e) {
        return;
      }
    }
  }

  private void serve(Socket socket) {
    try (Socket s = socket) {
      requests.add(read(s.getInputStream()));
      OutputStream out = s.getOutputStream();
      fault.answer(out, s);
      out.flush();
    } catch (IOException | InterruptedException e) {
      // the client went away
    }
  }

  private static String read(InputStream in) throws IOException {
    StringBuilder head = new StringBuilder();
    while (head.indexOf("\r\n\r\n") < 0) {
      int c = in.read();
      if (c < 0) {
        return head.toString();
      }
      head.append((char) c);
    }
    int length = 0;
    for (String line : head.toString().split("\r\n")) {
      if (line.toLowerCase().startsWith("content-length:")) {
        length = Integer.parseInt(line.substring(15).trim());
      }
    }
    return head + new String(in.readNBytes(length), StandardCharsets.UTF_8);
  }

  @Override
  public void close() throws IOException {
    listener.close();
    for (Socket s : open) {
      s.close();
    }
  }
}
