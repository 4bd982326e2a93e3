package io.github.bursar.linkis.ecm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.linkis.common.ServiceInstance;
import org.apache.linkis.manager.common.protocol.engine.EngineStopRequest;
import org.apache.linkis.manager.common.protocol.engine.EngineStopResponse;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Which processes a stop ends, against a real agent and a real coordinator, with real processes. */
@Timeout(120)
class StopTest {
  private static final Duration PATIENCE = Duration.ofSeconds(10);
  private static final Duration MINUTE = Duration.ofMinutes(1);

  /** Another engine of this machine may have any fixed one. */
  private static final AtomicInteger NEXT =
      new AtomicInteger(20_000 + (int) (ProcessHandle.current().pid() % 10_000));

  /** Writes over its arguments, and then a line. */
  private static final String FORGETS =
      "f=open('/proc/self/stat').read(); f=f[f.rindex(')')+2:].split(); a,e=int(f[45]),int(f[46]);"
          + "m=open('/proc/self/mem','r+b',buffering=0); m.seek(a); m.write(b'x'*(e-a-1)+b'\\0');"
          + "print('x',flush=True); import time; time.sleep(60)";

  private static RealAgent real;

  private final int port = NEXT.incrementAndGet();
  private final String address = "host-a:" + port;
  private Ecm ecm;
  private Kills service;
  private final List<Process> children = new ArrayList<>();

  @BeforeAll
  static void startAgent() throws Exception {
    real = new RealAgent();
  }

  @AfterAll
  static void stopAgent() throws Exception {
    real.close();
  }

  @BeforeEach
  void start() {
    LinkisItself.isNeeded();
    ecm = new Ecm(new EcmSettings(Collections.singletonMap(EcmSettings.SOCKET, real.socket)));
    service = new Kills(ecm);
  }

  @AfterEach
  void end() throws Exception {
    if (ecm == null) { // the test was left out
      return;
    }
    ecm.ended.close();
    ecm.agent.close();
    for (Process child : children) {
      child.descendants().forEach(ProcessHandle::destroyForcibly);
      child.destroyForcibly().waitFor();
    }
  }

  /** Kills a pid without Linkis's script, which needs sudo, and remembers it. */
  private static final class Kills extends BursarEngineConnKillService {
    final List<Long> pids = new ArrayList<>();

    Kills(Ecm ecm) {
      super(ecm);
    }

    @Override
    EngineStopResponse asLinkisDoes(EngineStopRequest request) {
      pids.add(Long.parseLong(request.getIdentifier()));
      ProcessHandle.of(pids.get(pids.size() - 1)).ifPresent(ProcessHandle::destroyForcibly);
      return new EngineStopResponse();
    }
  }

  /** A JVM with the arguments of an engine. */
  private Process jvm(String ticket) throws Exception {
    Process child = new ProcessBuilder(Idle.command(ticket, port).split(" ")).start();
    children.add(child);
    await("it is a JVM", () -> engines(ticket).stream().anyMatch(engine -> engine.pid == child.pid()));
    return child;
  }

  private List<EngineProcess> engines(String ticket) {
    return ecm.processes.engines(ticket, Integer.toString(port));
  }

  private interface Condition {
    boolean holds() throws Exception;
  }

  private static void await(String what, Condition condition) throws Exception {
    long end = System.nanoTime() + PATIENCE.toNanos();
    while (!condition.holds()) {
      assertTrue(System.nanoTime() < end, what + ": not within " + PATIENCE);
      Thread.sleep(20);
    }
  }

  /** One that has written over its command line. */
  private Process forgetful(String ticket) throws Exception {
    String command = "exec -a /usr/bin/java python3 -c \"" + FORGETS + "\" --spring-conf server.port=" + port + " --engineconn-conf ticketId=" + ticket;
    Process child = new ProcessBuilder("bash", "-c", command).start();
    children.add(child);
    assertEquals('x', child.getInputStream().read());
    assertTrue(engines(ticket).isEmpty());
    return child;
  }

  private EngineProcess confirmed(String id, Process child, String where) throws Exception {
    EngineProcess engine = ecm.processes.running(child.pid());
    assertTrue(ecm.agent.confirm(id, engine, where, PATIENCE).isActive());
    return engine;
  }

  private void started(String ticket, EngineProcess jvm) {
    StartedEngine engine = new StartedEngine(ticket);
    engine.jvm = jvm;
    ecm.started.put(address, engine);
  }

  private EngineStopResponse stop(Process child) {
    return stop(child, "/alice/20260101/shell/none/logs");
  }

  /** What Linkis asks for; without a pid if there is no child. */
  private EngineStopResponse stop(Process child, String logs) {
    ServiceInstance instance = new ServiceInstance();
    instance.setApplicationName("linkis-cg-engineconn");
    instance.setInstance(address);
    EngineStopRequest request = new EngineStopRequest(instance, "alice");
    request.setEngineType("shell");
    request.setLogDirSuffix(logs);
    if (child != null) {
      request.setIdentifierType("process");
      request.setIdentifier(Long.toString(child.pid()));
    }
    return service.dealEngineConnStop(request);
  }

  private void assertEnds(Process child, EngineStopResponse answer) throws Exception {
    assertTrue(answer.getStopStatus(), answer::getMsg);
    assertTrue(child.waitFor(5, TimeUnit.SECONDS), answer::getMsg);
  }

  private void assertGoesOn(Process child) {
    assertEquals(Collections.emptyList(), service.pids);
    assertTrue(child.isAlive());
  }

  @Test
  void theEngineOfAnotherEcmAtTheSamePortGoesOn() throws Exception {
    String id = real.reserve(MINUTE);
    Process others = jvm(id);
    confirmed(id, others, "host-b:" + port);
    assertFalse(stop(null, null).getStopStatus());
    assertFalse(stop(others, null).getStopStatus());
    assertFalse(stop(others).getStopStatus());
    assertFalse(stop(null, "alice/20260101/shell/" + id + "/logs").getStopStatus());
    assertGoesOn(others);
    // neither if its command line has the ticket of an engine here
    String here = real.reserve(MINUTE);
    String pretended = real.reserve(MINUTE);
    Process pretends = jvm(here);
    confirmed(pretended, pretends, "host-b:" + port);
    started(here, null);
    stop(null);
    assertGoesOn(pretends);
    assertTrue(ecm.agent.get(pretended, PATIENCE).isActive());
  }

  @Test
  void anEngineThatWritesOverItsCommandLineIsStoppedByItsAgent() throws Exception {
    String id = real.reserve(MINUTE);
    Process engine = forgetful(id);
    confirmed(id, engine, address);
    assertEnds(engine, stop(engine)); // by an ECM that was restarted
    assertTrue(service.pids.isEmpty());
    assertTrue(ecm.agent.get(id, PATIENCE).isOver());
  }

  @Test
  void anEngineThatIsStillStartingIsStoppedByItsReservation() throws Exception {
    String id = real.reserve(MINUTE);
    started(id, null);
    EngineStopResponse answer = stop(null);
    assertTrue(answer.getStopStatus(), answer::getMsg);
    assertTrue(answer.getMsg().contains("it was still starting: its reservation was canceled"), answer::getMsg);
    assertTrue(ecm.agent.get(id, PATIENCE).isOver()); // what starts is not confirmed, and is ended
    answer = stop(null);
    assertTrue(answer.getStopStatus(), answer::getMsg);
    assertTrue(answer.getMsg().contains("CANCELED, stopped by Linkis for alice"), answer::getMsg);
  }

  @Test
  void anEngineWithALeaseThatWritesOverItsCommandLineIsStopped() throws Exception {
    String id = real.reserve(MINUTE);
    Process engine = forgetful(id);
    real.confirm(id, address);
    EngineStopResponse unknown = stop(engine);
    assertFalse(unknown.getStopStatus(), unknown::getMsg);
    Process pretends = jvm(id);
    unknown = stop(engine);
    assertFalse(unknown.getStopStatus(), "a process that pretends to be it does not say that it has ended");
    assertGoesOn(pretends);
    started(id, ecm.processes.running(engine.pid()));
    assertEnds(engine, stop(engine));
  }

  @Test
  void aLeaseIsNotTakenForTheEndOfItsProcess() throws Exception {
    String id = real.reserve(MINUTE);
    Process engine = jvm(id);
    real.confirm(id, address);
    assertEnds(engine, stop(null));
  }

  @Test
  void aLeaseThatIsLeftOverAtTheAddressHidesNoEngine() throws Exception {
    real.confirm(real.reserve(MINUTE), address);
    String id = real.reserve(MINUTE);
    Process engine = forgetful(id);
    confirmed(id, engine, address);
    assertEnds(engine, stop(engine));
  }

  @Test
  void nobodyProtectsAnEngineByProcessesThatPretendToBeIt() throws Exception {
    String id = real.reserve(MINUTE);
    Process atItsPort = jvm("another");
    Process pretends = jvm(id);
    Process engine = jvm(id);
    real.confirm(id, address);
    assertEnds(engine, stop(engine));
    await("the one that pretends has ended", () -> !pretends.isAlive());
    assertTrue(atItsPort.isAlive());
  }

  @Test
  void anEngineFromBeforeBursarIsKnownByItsLogs() throws Exception {
    String ticket = UUID.randomUUID().toString();
    Process engine = jvm(ticket);
    assertFalse(stop(engine, null).getStopStatus());
    assertGoesOn(engine);
    assertEnds(engine, stop(engine, "alice/20260101/shell/" + ticket + "/logs"));
  }

  @Test
  void aPidThatIsAnothersByNowIsLeftAlone() throws Exception {
    String id = real.reserve(MINUTE);
    Process engine = jvm(id);
    Process other = jvm("another");
    started(id, confirmed(id, engine, address));
    EngineStopResponse answer = stop(other);
    assertTrue(answer.getMsg().contains("pid " + other.pid() + " is no engine there"), answer::getMsg);
    assertGoesOn(other);
    assertTrue(engine.isAlive());
    engine.destroyForcibly().waitFor();
    answer = stop(other); // before the agent sees its end
    assertTrue(answer.getMsg().contains("pid " + other.pid() + " is no engine there"), answer::getMsg);
    await("the agent sees its end", () -> ecm.agent.get(id, PATIENCE).isOver());
    answer = stop(other);
    assertTrue(answer.getMsg().contains("pid " + other.pid() + " is no engine there"), answer::getMsg);
    assertTrue(stop(engine).getStopStatus());
    assertGoesOn(other);
  }

  @Test
  void anEngineIsKnownByTheAgentsProcessThatHasStartedIt() throws Exception {
    String id = real.reserve(MINUTE);
    Process launcher = new ProcessBuilder("bash", "-c", Idle.command(id, port) + "; exit $?").start();
    children.add(launcher);
    confirmed(id, launcher, address);
    await("there is a JVM", () -> !engines(id).isEmpty());
    long jvm = engines(id).get(0).pid;
    assertTrue(ecm.processes.isBelow(jvm, launcher.pid()));
    assertFalse(ecm.processes.isBelow(launcher.pid(), jvm));
    assertTrue(StopTarget.at(ecm, address, null).get(0).has(jvm));
  }

  @Test
  void withoutItsAgentOnlyWhatTheEcmHasFoundIsEnded(@TempDir Path folder) throws Exception {
    Ecm alone = new Ecm(new EcmSettings(Collections.singletonMap(EcmSettings.SOCKET, folder + "/no.sock")));
    ecm.agent.close();
    ecm = alone;
    service = new Kills(alone);
    Process engine = jvm("t-1");
    started("t-1", null);
    assertFalse(stop(engine).getStopStatus());
    assertGoesOn(engine);
    started("t-1", ecm.processes.running(engine.pid()));
    assertEnds(engine, stop(engine));
  }
}
