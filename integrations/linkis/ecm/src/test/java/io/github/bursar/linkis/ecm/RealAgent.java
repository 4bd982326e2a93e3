package io.github.bursar.linkis.ecm;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.InputStream;
import java.net.HttpURLConnection;
import java.net.ServerSocket;
import java.net.URL;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.time.Duration;
import java.util.concurrent.TimeUnit;

/** A coordinator and an agent, from bin/bursar, in a folder of their own. */
final class RealAgent implements AutoCloseable {
  static final String HOST = "host-a";
  private static final ObjectMapper JSON = new ObjectMapper();

  final String socket;
  private final Path folder;
  private final String url;
  private final Process coordinator;
  private Process agent;

  RealAgent() throws Exception {
    // Not below a folder of the build: the path of a socket is short, and other users reach it.
    folder = Files.createTempDirectory("bursar-ecm");
    folder.toFile().setExecutable(true, false);
    socket = folder + "/agent.sock";
    int port;
    try (ServerSocket free = new ServerSocket(0)) {
      port = free.getLocalPort();
    }
    url = "http://127.0.0.1:" + port;
    write("coordinator.yaml", "listen: 127.0.0.1:" + port, "dataDir: " + folder + "/coordinator", "times: {interval: 1s}");
    write(
        "agent.yaml",
        "hostId: " + HOST,
        "coordinators: ['" + url + "']",
        "socket: " + socket,
        "stateDir: " + folder + "/agent",
        "tick: 1s",
        "engines: {cgroups: none, logDir: " + folder + "/logs}");
    coordinator = start("coordinator");
    agent = start("agent");
    awaitHost();
  }

  private void write(String name, String... lines) throws IOException {
    Files.write(folder.resolve(name), String.join("\n", lines).concat("\n").getBytes(StandardCharsets.UTF_8));
  }

  private Process start(String kind) throws IOException {
    String binary = System.getProperty("bursar.binary", "");
    if (!Files.isExecutable(Paths.get(binary))) {
      throw new IllegalStateException("bursar.binary: \"" + binary + "\": want the path of bin/bursar: make build");
    }
    return new ProcessBuilder(binary, kind, "--config", folder.resolve(kind + ".yaml").toString())
        .redirectErrorStream(true)
        .redirectOutput(ProcessBuilder.Redirect.appendTo(folder.resolve(kind + ".log").toFile()))
        .start();
  }

  private void awaitHost() throws Exception {
    long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(30);
    while (true) {
      try {
        String id = reserve(Duration.ofSeconds(60));
        call("AllocationService/Release", "{\"id\":\"" + id + "\"}");
        return;
      } catch (IOException e) {
        if (System.nanoTime() > end) {
          throw new IllegalStateException(
              "no host after 30 s:\n" + log("agent"), e);
        }
        Thread.sleep(100);
      }
    }
  }

  /**
   * What LinkisManager does: a reservation of this host, from a coordinator. It waits if the host is
   * not heard of for a moment, as after a restart of its agent.
   */
  String reserve(Duration ttl) throws IOException {
    return call(
            "AllocationService/Allocate",
            "{\"labels\":{\"user\":\"root\"},\"resource\":{\"memoryBytes\":\"67108864\"},\"host\":{\"id\":\""
                + HOST
                + "\"},\"wait\":\"20s\",\"reservationTtl\":\""
                + ttl.getSeconds()
                + "s\"}")
        .path("allocation")
        .path("id")
        .asText();
  }

  /** What LinkisManager does when an engine reports that it is ready: a lease, from a coordinator. */
  void confirm(String id, String address) throws IOException {
    call("AllocationService/Confirm", "{\"id\":\"" + id + "\",\"address\":\"" + address + "\",\"lease\":\"3600s\"}");
  }

  JsonNode allocation(String id) throws IOException {
    return call("AllocationService/Get", "{\"id\":\"" + id + "\"}").path("allocation");
  }

  private JsonNode call(String procedure, String body) throws IOException {
    HttpURLConnection connection = (HttpURLConnection) new URL(url + "/bursar.v1." + procedure).openConnection();
    connection.setConnectTimeout(5000);
    connection.setReadTimeout(30000);
    connection.setRequestProperty("Content-Type", "application/json");
    connection.setDoOutput(true);
    connection.getOutputStream().write(body.getBytes(StandardCharsets.UTF_8));
    try (InputStream answer = connection.getInputStream()) {
      return JSON.readTree(answer);
    }
  }

  void killAgent() throws InterruptedException {
    agent.destroyForcibly().waitFor();
  }

  void startAgent() throws IOException {
    agent = start("agent");
  }

  void killCoordinator() throws InterruptedException {
    coordinator.destroyForcibly().waitFor();
  }

  /** What the agent or the coordinator has logged. */
  String log(String kind) throws IOException {
    return new String(Files.readAllBytes(folder.resolve(kind + ".log")), StandardCharsets.UTF_8);
  }

  /** Where the agent keeps the output of an engine. */
  Path logs(String id) {
    return folder.resolve("logs").resolve(id);
  }

  /** A folder in which every user may write. */
  Path open(String name) throws IOException {
    Path path = Files.createDirectories(folder.resolve(name));
    path.toFile().setWritable(true, false);
    path.toFile().setReadable(true, false);
    path.toFile().setExecutable(true, false);
    return path;
  }

  @Override
  public void close() throws Exception {
    agent.destroyForcibly().waitFor();
    coordinator.destroyForcibly().waitFor();
    try (java.util.stream.Stream<Path> files = Files.walk(folder)) {
      files.sorted(java.util.Comparator.reverseOrder()).forEach(f -> f.toFile().delete());
    }
  }
}
