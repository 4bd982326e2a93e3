package io.github.bursar.linkis.ecm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.lang.reflect.Proxy;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.channels.ServerSocketChannel;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Stream;
import org.apache.linkis.manager.label.entity.Label;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** What engines leave behind, against a real agent and a real coordinator, with real processes. */
@Timeout(120)
class EndedEnginesTest {
  private static final Duration PATIENCE = Duration.ofSeconds(10);
  private static final Duration MINUTE = Duration.ofMinutes(1);
  private static RealAgent real;
  private static Agent agent;

  private final ProcessTable processes = new ProcessTable();
  private final EndedEngines engines = new EndedEngines(agent, processes);
  private final List<Process> children = new ArrayList<>();

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
    engines.close();
    await("nobody asks the agent any more", () -> threads().count() == 0);
    for (Process child : children) {
      child.descendants().forEach(ProcessHandle::destroyForcibly);
      child.destroyForcibly().waitFor();
    }
  }

  /** A process with a task's process below it. */
  private Process withTask(String... command) throws Exception {
    Process child = new ProcessBuilder(command).start();
    children.add(child);
    await("it has a child", () -> task(child) != null);
    return child;
  }

  private static ProcessHandle task(Process child) {
    return child.descendants().filter(c -> c.info().command().orElse("").endsWith("/sleep")).findFirst().orElse(null);
  }

  private EngineProcess confirmed(String id, ProcessHandle engine) throws Exception {
    EngineProcess process = processes.running(engine.pid());
    assertTrue(agent.confirm(id, process, "host-a:17485", PATIENCE).isActive());
    await("its processes are measured", () -> real.allocation(id).path("measured").path("memoryBytes").asLong() > 0);
    return process;
  }

  private interface Condition {
    boolean holds() throws Exception;
  }

  private static void await(String what, Condition condition) throws Exception {
    long end = System.nanoTime() + Duration.ofSeconds(15).toNanos();
    while (!condition.holds()) {
      assertTrue(System.nanoTime() < end, what + ": not within 15 s");
      Thread.sleep(20);
    }
  }

  @Test
  void anEngineThatIsKilledTakesItsTasksWithIt() throws Exception {
    String id = real.reserve(MINUTE);
    Process child = withTask("bash", "-c", "sleep 300 & wait");
    ProcessHandle task = task(child);
    EngineProcess engine = confirmed(id, child.toHandle());
    child.destroyForcibly().waitFor();
    try {
      await("the agent says that others live on", () -> real.log("agent").contains("others live on") && real.log("agent").contains(id));
      assertTrue(task.isAlive());
      assertTrue(agent.get(id, PATIENCE).isActive(), "a task holds the allocation");
      engines.ended(id, engine);
      await("the task has ended", () -> !task.isAlive());
      await("the allocation is over", () -> agent.get(id, PATIENCE).isOver());
      assertEquals("RELEASED", agent.get(id, PATIENCE).state);
    } finally {
      task.destroyForcibly();
    }
  }

  @Test
  void anEngineWhoseLauncherHasEndedGoesOn() throws Exception {
    String id = real.reserve(MINUTE);
    Process launcher = withTask("bash", "-c", "bash -c 'sleep 300 & wait' & exec sleep 301");
    ProcessHandle forked = launcher.children().filter(c -> c.children().findAny().isPresent()).findFirst().get();
    EngineProcess engine = confirmed(id, forked);
    launcher.destroyForcibly().waitFor();
    try {
      engines.ended(id, engine);
      assertEquals(0, threads().count(), "the agent is asked for something");
      assertTrue(forked.isAlive());
      assertTrue(agent.get(id, PATIENCE).isActive());
    } finally {
      forked.descendants().forEach(ProcessHandle::destroyForcibly);
      forked.destroyForcibly();
    }
  }

  @Test
  void aReservationIsLeftToLinkis() throws Exception {
    String id = real.reserve(MINUTE);
    EngineProcess past = new EngineProcess(ProcessHandle.current().pid(), 1);
    engines.ended(id, null);
    engines.ended(id, past);
    await("the agent has answered", () -> threads().findAny().isPresent() && threads().allMatch(EndedEnginesTest::isIdle));
    assertTrue(agent.get(id, PATIENCE).isReserved());
  }

  /** Those that ask the agent. Earlier tests' have ended. */
  private static Stream<Thread> threads() {
    return Thread.getAllStackTraces().keySet().stream().filter(thread -> thread.getName().equals("bursar-ended"));
  }

  /** A thread that has not come to its first task yet is not. */
  private static boolean isIdle(Thread thread) {
    return Arrays.stream(thread.getStackTrace()).anyMatch(frame -> frame.getMethodName().equals("getTask"));
  }

  /** Four calls are not answered, a thousand wait, and what is more is told. */
  @Test
  void anAgentThatDoesNotAnswerHoldsNobodyUp(@TempDir Path folder) throws Exception {
    UnixDomainSocketAddress address = UnixDomainSocketAddress.of(folder.resolve("a.sock"));
    PrintStream before = System.err;
    ByteArrayOutputStream said = new ByteArrayOutputStream();
    try (ServerSocketChannel silent = ServerSocketChannel.open(StandardProtocolFamily.UNIX).bind(address);
        Agent none = new Agent(address.toString());
        EndedEngines others = new EndedEngines(none, processes)) {
      System.setErr(new PrintStream(said, true, "UTF-8"));
      long begin = System.nanoTime();
      for (int i = 0; i < 1010; i++) {
        others.ended("as" + i, new EngineProcess(ProcessHandle.current().pid(), 1));
      }
      assertTrue(Duration.ofNanos(System.nanoTime() - begin).compareTo(Duration.ofSeconds(5)) < 0);
    } finally {
      System.setErr(before);
    }
    String log = said.toString("UTF-8");
    for (int i = 1004; i < 1010; i++) {
      assertTrue(log.contains("engine of ticket as" + i + " has ended: what it left is not looked for"), log);
    }
    assertEquals(6, log.split("is not looked for", -1).length - 1, log);
  }

  @Test
  void anEngineOfAYarnClusterIsToldByItsLabel() {
    Label<?> cluster = label("engingeConnRuntimeMode", "yarnCluster");
    assertTrue(BursarEngineConnLaunch.livesInYarn(Arrays.asList(label("engineType", "spark-3.2.1"), cluster)));
    assertFalse(BursarEngineConnLaunch.livesInYarn(Arrays.asList(label("engineType", "yarnCluster"))));
    assertFalse(BursarEngineConnLaunch.livesInYarn(Arrays.asList(label("engingeConnRuntimeMode", "local"))));
  }

  private static Label<?> label(String key, String value) {
    return (Label<?>)
        Proxy.newProxyInstance(
            EndedEnginesTest.class.getClassLoader(),
            new Class<?>[] {Label.class},
            (proxy, method, arguments) -> method.getName().equals("getLabelKey") ? key : method.getName().equals("getStringValue") ? value : null);
  }
}
