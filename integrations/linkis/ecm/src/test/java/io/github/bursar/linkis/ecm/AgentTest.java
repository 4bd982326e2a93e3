package io.github.bursar.linkis.ecm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.BooleanSupplier;
import java.util.function.Supplier;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Against a real agent and a real coordinator, with real processes. */
@Timeout(120)
class AgentTest {
  private static final Duration PATIENCE = Duration.ofSeconds(10);
  private static final Duration MINUTE = Duration.ofMinutes(1);
  private static final Duration UNTIL_RELEASED = Duration.ofSeconds(1);
  private static final String OWN = System.getProperty("user.name");
  private static RealAgent real;
  private static Agent agent;

  private final ProcessTable processes = new ProcessTable();
  private final List<Process> children = new ArrayList<>();
  private Path logs; // of the engine that was launched last
  private Path work;

  @BeforeAll
  static void start() throws Exception {
    real = new RealAgent();
    agent = new Agent(real.socket);
  }

  @AfterAll
  static void stop() throws Exception {
    agent.close();
    real.close();
  }

  @AfterEach
  void end() throws Exception {
    for (Process child : children) {
      child.descendants().forEach(ProcessHandle::destroyForcibly);
      child.destroyForcibly().waitFor();
    }
  }

  private Process sleeper() throws Exception {
    Process child = new ProcessBuilder("sleep", "60").start();
    children.add(child);
    return child;
  }

  private EngineProcess confirmed(String id, Process child, String address) throws Exception {
    EngineProcess engine = processes.running(ProcessTable.pidOf(child).getAsLong());
    AgentAllocation answer = agent.confirm(id, engine, address, PATIENCE);
    assertTrue(answer.isActive(), answer::toString);
    return engine;
  }

  private static AgentAllocation over(String id, Duration within) throws Exception {
    long end = System.nanoTime() + within.toNanos();
    AgentAllocation now = agent.get(id, PATIENCE);
    while (!now.isOver()) {
      assertTrue(System.nanoTime() < end, "still " + now + " after " + within);
      Thread.sleep(50);
      now = agent.get(id, PATIENCE);
    }
    return now;
  }

  @Test
  void aConfirmedEngineIsKnownByItsPidAndItsKillIsSeenAtOnce() throws Exception {
    String id = real.reserve(MINUTE);
    assertTrue(agent.get(id, PATIENCE).isReserved());
    Process child = sleeper();
    EngineProcess engine = confirmed(id, child, "host-a:17485");
    assertEquals(child.pid(), real.allocation(id).path("process").path("pid").asLong());
    assertEquals("host-a:17485", real.allocation(id).path("address").asText());
    assertEquals("PHASE_STARTING", real.allocation(id).path("phase").asText());
    assertEquals(engine, new EngineProcess(agent.get(id, PATIENCE).pid, agent.get(id, PATIENCE).startTime));
    child.destroyForcibly().waitFor();
    AgentAllocation end = over(id, Duration.ofSeconds(5));
    assertEquals("RELEASED", end.state);
  }

  @Test
  void anEngineIsFoundByItsAddressAndStopped() throws Exception {
    String id = real.reserve(MINUTE);
    Process child = sleeper();
    confirmed(id, child, "host-a:17486");
    List<AgentAllocation> found = agent.at("host-a:17486", PATIENCE);
    assertEquals(1, found.size());
    assertEquals(id, found.get(0).id);
    assertTrue(agent.at("host-a:1748", PATIENCE).isEmpty());
    agent.stop(id, "stopped by Linkis for alice", Duration.ofSeconds(5), PATIENCE);
    assertTrue(child.waitFor(10, TimeUnit.SECONDS), "the engine still runs");
    AgentAllocation end = over(id, Duration.ofSeconds(10));
    assertTrue(end.reason.contains("stopped by Linkis for alice"), end::toString);
  }

  @Test
  void whatIsOverOrUnknownIsRefused() throws Exception {
    for (String ticket : new String[] {"as0000000000a", java.util.UUID.randomUUID().toString()}) {
      AgentException unknown = assertThrows(AgentException.class, () -> agent.get(ticket, PATIENCE));
      assertTrue(unknown.isUnknown(), unknown.code + ": " + unknown.getMessage());
      assertTrue(Ecm.mustNotRun(agent, ticket, unknown, PATIENCE));
      assertFalse(unknown.isRetriable());
    }
    String id = real.reserve(Duration.ofSeconds(1));
    EngineProcess engine = processes.running(sleeper().pid());
    over(id, Duration.ofSeconds(10));
    AgentException expired = assertThrows(AgentException.class, () -> agent.confirm(id, engine, "", PATIENCE));
    assertTrue(Ecm.mustNotRun(agent, id, expired, PATIENCE), expired::getMessage);
  }

  @Test
  void aPidOfThePastIsNotConfirmed() throws Exception {
    String id = real.reserve(MINUTE);
    EngineProcess now = processes.running(sleeper().pid());
    EngineProcess past = new EngineProcess(now.pid, now.startTime - 100);
    AgentException refused = assertThrows(AgentException.class, () -> agent.confirm(id, past, "", PATIENCE));
    assertEquals("failed_precondition", refused.code);
    assertFalse(Ecm.mustNotRun(agent, id, refused, PATIENCE), "a pid says nothing about the allocation");
    assertTrue(agent.get(id, PATIENCE).isReserved());
  }

  @Test
  void anEngineThatTheManagerHasConfirmedIsNotEnded() throws Exception {
    String id = real.reserve(MINUTE);
    real.confirm(id, "host-a:17487");
    EngineProcess engine = processes.running(sleeper().pid());
    try {
      assertTrue(agent.confirm(id, engine, "host-a:17487", PATIENCE).isActive());
    } catch (AgentException refused) {
      assertFalse(Ecm.mustNotRun(agent, id, refused, PATIENCE), refused::getMessage);
    }
    String other = real.reserve(MINUTE);
    AgentException taken = assertThrows(AgentException.class, () -> agent.confirm(other, new EngineProcess(999_999_999, 1), "", PATIENCE));
    assertFalse(Ecm.mustNotRun(agent, other, taken, PATIENCE), taken::getMessage);
    assertFalse(Ecm.mustNotRun(agent, other, new AgentException("permission_denied", "no"), PATIENCE));
  }

  @Test
  void anAgentThatRestartsIsWaitedFor() throws Exception {
    String id = real.reserve(MINUTE);
    Process child = sleeper();
    real.killAgent();
    AgentException away = assertThrows(AgentException.class, () -> agent.ping(Duration.ofMillis(300)));
    assertTrue(away.isRetriable());
    assertTrue(away.getMessage().contains(real.socket), away::getMessage);
    Thread starter =
        new Thread(
            () -> {
              try {
                Thread.sleep(1000);
                real.startAgent();
              } catch (Exception e) {
                throw new IllegalStateException(e);
              }
            });
    starter.start();
    EngineProcess engine = processes.running(child.pid());
    assertTrue(agent.confirm(id, engine, "", Duration.ofSeconds(30)).isActive());
    starter.join();
  }

  /** One that runs as "nobody", like an ECM with an account of its own. Root's rights to read its classes stay. */
  private Process asNobody(String registers) throws Exception {
    org.junit.jupiter.api.Assumptions.assumeTrue("root".equals(System.getProperty("user.name")), "only root may start an ECM as another user");
    String java = System.getProperty("java.home") + "/bin/java";
    Process ecm =
        new ProcessBuilder(
                "setpriv", "--reuid=65534", "--clear-groups", "--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search",
                java, "-Xmx64m", "-cp", System.getProperty("surefire.test.class.path", System.getProperty("java.class.path")), registers, real.socket)
            .redirectErrorStream(true)
            .start();
    children.add(ecm);
    return ecm;
  }

  @Test
  void anEcmThatTheAgentDoesNotTrustIsNotRegistered() throws Exception {
    BursarEcmRegisterService.check(agent, PATIENCE); // root's, or the agent's own user's
    Process ecm = asNobody(Registers.class.getName());
    String said = new String(ecm.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    assertEquals(1, ecm.waitFor(), said);
    assertTrue(said.contains("This ECM is not registered"), said);
    assertTrue(said.contains("want the ECM's account among trustedUsers of the agent on this host"), said);
  }

  @Test
  void anEcmIsRegisteredIfNobodyCanSayWhetherItIsTrusted() throws Exception {
    try (RealAgent alone = new RealAgent(); Agent its = new Agent(alone.socket)) {
      alone.killCoordinator();
      AgentException unknown = assertThrows(AgentException.class, () -> its.requireTrust(Duration.ofSeconds(3)));
      assertTrue(unknown.isRetriable(), unknown.code);
      BursarEcmRegisterService.check(its, Duration.ofSeconds(3));
    }
  }

  @Test
  void aTicketOfStockLinkisIsSaidToBeOne() throws Exception {
    LinkisItself.isNeeded(); // its exceptions keep their message
    Ecm ecm = new Ecm(new EcmSettings(java.util.Collections.singletonMap(EcmSettings.SOCKET, real.socket)));
    String ticket = java.util.UUID.randomUUID().toString();
    String text = assertThrows(Exception.class, () -> ecm.requireReservation(ticket)).getMessage();
    assertTrue(text.contains("ticket " + ticket + ": a UUID is a ticket of stock Linkis: want linkis.bursar.mode=enforce at LinkisManager"), text);
    text = assertThrows(Exception.class, () -> ecm.requireReservation("as0000000000a")).getMessage();
    assertTrue(text.contains("want a ticket of Bursar for this host"), text);
  }

  @Test
  void whatIsNoAgentIsSaidToBeNone(@TempDir Path folder) throws Exception {
    try (Agent none = new Agent(folder + "/no.sock")) {
      AgentException e = assertThrows(AgentException.class, () -> none.ping(Duration.ofMillis(200)));
      assertEquals("unavailable", e.code);
      String text = BursarEcmRegisterService.refusal(
          new EcmSettings(java.util.Collections.singletonMap(EcmSettings.SOCKET, folder + "/no.sock")), e);
      assertTrue(text.contains("linkis.bursar.agent.socket: \"" + folder + "/no.sock\": want"), text);
    }
  }

  @Test
  void onlyTheAgentOfRootOrOneselfIsTrusted() throws Exception {
    AgentTransport.trust(0);
    AgentTransport.trust(AgentTransport.ownUser());
    int other = AgentTransport.ownUser() + 12_345;
    String text = assertThrows(java.io.IOException.class, () -> AgentTransport.trust(other)).getMessage();
    assertTrue(text.contains("uid " + other + ": want an agent of root or of the ECM's own user"), text);
  }

  @Test
  void aSocketOfAnotherUserIsNotAsked() throws Exception {
    org.junit.jupiter.api.Assumptions.assumeTrue("root".equals(System.getProperty("user.name")), "only root may start a server as another user");
    Path socket = real.open("foreign").resolve("agent.sock");
    String server = "$l = IO::Socket::UNIX->new(Local => '" + socket + "', Listen => 5) or die; $c = $l->accept; print sysread($c, $b, 9)";
    Process foreign = new ProcessBuilder("setpriv", "--reuid=65534", "--clear-groups", "perl", "-MIO::Socket::UNIX", "-e", server).start();
    children.add(foreign);
    for (int i = 0; i < 100 && !Files.exists(socket); i++) {
      Thread.sleep(50);
    }
    assertTrue(Files.exists(socket), "there is no server");
    try (Agent other = new Agent(socket.toString())) {
      AgentException e = assertThrows(AgentException.class, () -> other.ping(Duration.ofMillis(1)));
      assertTrue(e.getMessage().contains("uid 65534: want an agent of root"), e::getMessage);
    }
    assertEquals('0', foreign.getInputStream().read(), "it was told something");
  }

  @Test
  void aLaunchedEngineEndsAsItsScriptDoes() throws Exception {
    String id = real.reserve(MINUTE);
    AgentProcess process = launch(id, "echo one; echo two; echo wrong >&2; exit 7");
    List<String> lines = new ArrayList<>();
    // as Linkis reads it
    try (BufferedReader reader = new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8))) {
      for (String line = ""; process.isAlive() && line != null; ) {
        line = reader.readLine();
        if (line != null) {
          lines.add(line);
        }
      }
    }
    assertEquals(Arrays.asList("one", "two", "wrong"), lines);
    assertEquals(7, process.waitFor());
    assertEquals(7, process.exitValue());
    assertFalse(process.isAlive());
    assertEquals("RELEASED", agent.get(id, PATIENCE).state);
  }

  @Test
  void theKillOfALaunchedEngineIsSeenAtOnce() throws Exception {
    String id = real.reserve(MINUTE);
    AgentProcess process = launch(id, "sleep 60; exit $?");
    assertTrue(process.isAlive());
    assertThrows(IllegalThreadStateException.class, process::exitValue);
    long sleep = child(process.root.pid).pid();
    long begin = System.nanoTime();
    new ProcessBuilder("kill", "-9", Long.toString(sleep)).start().waitFor();
    assertEquals(128 + 9, process.waitFor());
    assertTrue(Duration.ofNanos(System.nanoTime() - begin).compareTo(Duration.ofSeconds(5)) < 0);
    over(id, Duration.ofSeconds(1));
  }

  /** The agent keeps it, for all who may read it. A reason is the last that a process writes. */
  @Test
  void theOutputIsReadFromTheAgentByItsEnds() throws Exception {
    String id = real.reserve(MINUTE);
    AgentProcess process =
        launch(id, "head -c 300000 /dev/zero | tr '\\0' o; echo printed; head -c 300000 /dev/zero | tr '\\0' e >&2; echo wrong >&2");
    assertEquals("PHASE_STARTING", real.allocation(id).path("phase").asText());
    byte[] output = readAll(process.getInputStream());
    int half = 128 << 10;
    assertEquals(2 * half, output.length);
    String text = new String(output, StandardCharsets.US_ASCII);
    assertTrue(text.substring(0, half).endsWith("ooprinted\n"), text.substring(half - 20, half));
    assertTrue(text.endsWith("eewrong\n"), text.substring(2 * half - 20));
    assertEquals(300_008, Files.size(logs.resolve("stdout")));
  }

  @Test
  void littleOutputIsReadWhole() throws Exception {
    AgentProcess process = launch(real.reserve(MINUTE), "echo printed; echo wrong >&2");
    assertEquals("printed\nwrong\n", new String(readAll(process.getInputStream()), StandardCharsets.US_ASCII));
  }

  @Test
  void outputThatTheAgentDoesNotHaveIsAnError() throws Exception {
    String id = real.reserve(MINUTE);
    assertThrows(AgentException.class, () -> agent.output(id, Agent.STDOUT, 100, PATIENCE));
  }

  private static byte[] readAll(InputStream from) throws IOException {
    java.io.ByteArrayOutputStream all = new java.io.ByteArrayOutputStream();
    byte[] piece = new byte[4096];
    for (int n; (n = from.read(piece)) >= 0; ) {
      all.write(piece, 0, n);
    }
    return all.toByteArray();
  }

  private static ProcessHandle child(long pid) {
    for (int i = 0; i < 100; i++) {
      try {
        Thread.sleep(50);
      } catch (InterruptedException e) {
        throw new IllegalStateException(e);
      }
      // a login shell has other children first
      java.util.Optional<ProcessHandle> found =
          ProcessHandle.of(pid)
              .flatMap(p -> p.children().filter(c -> c.info().command().orElse("").endsWith("/sleep")).findFirst());
      if (found.isPresent()) {
        return found.get();
      }
    }
    throw new AssertionError("no child of " + pid);
  }

  @Test
  void destroyingALaunchedEngineEndsAllOfIt() throws Exception {
    String id = real.reserve(MINUTE);
    AgentProcess process = launch(id, "sleep 61 & sleep 62");
    child(process.root.pid);
    process.destroy();
    assertTrue(process.waitFor(20, TimeUnit.SECONDS));
    assertEquals(128 + 15, process.exitValue());
    over(id, Duration.ofSeconds(5));
  }

  @Test
  void anEngineRunsAsTheUserThatItIsFor() throws Exception {
    org.junit.jupiter.api.Assumptions.assumeTrue("root".equals(System.getProperty("user.name")), "only root may start engines as another user");
    String id = real.reserve(MINUTE);
    AgentProcess process = launch(id, "nobody", "id -un; pwd");
    process.waitFor();
    BufferedReader reader = new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8));
    assertEquals("nobody", reader.readLine());
    assertEquals(0, process.waitFor());
  }

  @Test
  void anEngineRunsAsLongAsItsJvmAlsoIfItsShellIsKilledAndTheAgentIsAway() throws Exception {
    String id = real.reserve(MINUTE);
    AtomicReference<EngineProcess> jvm = new AtomicReference<>();
    AgentProcess process = launch(id, OWN, jvm(id) + "; exit $?", jvm::get, () -> {});
    CompletableFuture<Integer> exit = waitFor(process);
    killShellOnceItsJvmRuns(process, id, jvm);
    stillRuns(process, exit);
    real.killAgent();
    try {
      stillRuns(process, exit);
    } finally {
      real.startAgent();
    }
    assertTrue(agent.get(id, Duration.ofSeconds(30)).isActive());
    stillRuns(process, exit);
    kill(jvm.get().pid);
    assertNotEquals(0, exit.get(10, TimeUnit.SECONDS));
    assertFalse(process.isAlive());
    assertEquals("RELEASED", over(id, Duration.ofSeconds(10)).state);
  }

  @Test
  void anEngineEndsWithItsJvmAndTakesItsTasksWithIt() throws Exception {
    String id = real.reserve(MINUTE);
    AtomicReference<EngineProcess> jvm = new AtomicReference<>();
    try (EndedEngines ended = new EndedEngines(agent, processes)) {
      AgentProcess process =
          launch(id, OWN, "sleep 63 & " + jvm(id) + "; exit $?", jvm::get, () -> ended.ended(id, jvm.get()));
      EngineProcess task = processes.running(child(process.root.pid).pid());
      CompletableFuture<Integer> exit = waitFor(process);
      killShellOnceItsJvmRuns(process, id, jvm);
      kill(jvm.get().pid);
      assertNotEquals(0, exit.get(10, TimeUnit.SECONDS));
      assertFalse(process.isAlive());
      assertEquals("RELEASED", over(id, Duration.ofSeconds(10)).state);
      assertFalse(processes.runs(task));
    }
  }

  private static String jvm(String id) {
    return "cd " + System.getProperty("user.dir") + "; " + Idle.command(id, 17490);
  }

  private void killShellOnceItsJvmRuns(AgentProcess process, String id, AtomicReference<EngineProcess> jvm)
      throws Exception {
    await("its JVM runs", () -> jvm.updateAndGet(x -> processes.engineBelow(process.root.pid, id)) != null);
    kill(process.root.pid);
    await("its shell has ended", () -> !process.rootRuns());
  }

  @Test
  void anEngineWhoseJvmWasNotFoundRunsAsLongAsTheAgentHoldsItsAllocation() throws Exception {
    String id = real.reserve(MINUTE);
    AgentProcess process = launch(id, "sleep 64; exit $?");
    long task = child(process.root.pid).pid();
    CompletableFuture<Integer> exit = waitFor(process);
    kill(process.root.pid);
    await("its shell has ended", () -> !process.rootRuns());
    stillRuns(process, exit);
    real.killAgent();
    try {
      stillRuns(process, exit);
    } finally {
      real.startAgent();
    }
    stillRuns(process, exit);
    kill(task);
    exit.get(10, TimeUnit.SECONDS);
    assertFalse(process.isAlive());
    assertEquals("RELEASED", agent.get(id, PATIENCE).state);
  }

  /** Longer than a process waits for its release. */
  private static void stillRuns(AgentProcess process, CompletableFuture<Integer> exit) throws Exception {
    Thread.sleep(2 * UNTIL_RELEASED.toMillis());
    assertTrue(process.isAlive());
    assertFalse(exit.isDone(), "Linkis is told that the engine has ended");
    assertThrows(IllegalThreadStateException.class, process::exitValue);
  }

  private static CompletableFuture<Integer> waitFor(AgentProcess process) {
    return CompletableFuture.supplyAsync(
        () -> {
          try {
            return process.waitFor();
          } catch (InterruptedException e) {
            throw new IllegalStateException(e);
          }
        });
  }

  private static void kill(long pid) throws Exception {
    assertEquals(0, new ProcessBuilder("kill", "-9", Long.toString(pid)).start().waitFor());
  }

  private static void await(String what, BooleanSupplier condition) throws Exception {
    long end = System.nanoTime() + Duration.ofSeconds(20).toNanos();
    while (!condition.getAsBoolean()) {
      assertTrue(System.nanoTime() < end, what + ": not within 20 s");
      Thread.sleep(20);
    }
  }

  private AgentProcess launch(String id, String script) throws Exception {
    return launch(id, OWN, script);
  }

  private AgentProcess launch(String id, String user, String script) throws Exception {
    return launch(id, user, script, () -> null, () -> {});
  }

  private AgentProcess launch(String id, String user, String script, Supplier<EngineProcess> jvm, Runnable ended)
      throws Exception {
    Path folder = work = real.open(id);
    Path file = folder.resolve("engineConnExec.sh");
    Files.write(file, script.concat("\n").getBytes(StandardCharsets.UTF_8));
    logs = real.logs(id);
    AgentAllocation launched =
        agent.launch(id, Arrays.asList("bash", "-l", file.toString()), folder.toString(), null, user, "host-a:17490");
    assertTrue(launched.isActive(), launched::toString);
    return new AgentProcess(agent, processes, launched, jvm, ended, UNTIL_RELEASED);
  }
}
