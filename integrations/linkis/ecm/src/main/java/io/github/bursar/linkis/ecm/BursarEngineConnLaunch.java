package io.github.bursar.linkis.ecm;

import java.util.Arrays;
import java.util.List;
import java.util.OptionalLong;
import org.apache.linkis.ecm.core.launch.ProcessEngineCommandBuilder;
import org.apache.linkis.ecm.core.launch.ProcessEngineCommandExec;
import org.apache.linkis.ecm.core.utils.PortUtils;
import org.apache.linkis.ecm.linux.launch.LinuxProcessEngineConnLaunch;
import org.apache.linkis.ecm.server.util.ECMUtils;
import org.apache.linkis.governance.common.conf.GovernanceCommonConf;
import org.apache.linkis.manager.label.constant.LabelKeyConstant;
import org.apache.linkis.manager.label.entity.Label;
import scala.Option;

/** One engine: started by the ECM as Linkis does, or by the agent. */
class BursarEngineConnLaunch extends LinuxProcessEngineConnLaunch {
  private static final String YARN_CLUSTER = "yarnCluster"; // LabelValueConstant's

  private final Ecm ecm;
  private volatile int port;
  private volatile StartedEngine started;

  BursarEngineConnLaunch(Ecm ecm) {
    this.ecm = ecm;
  }

  /** The pid of the engine's JVM, once it is known: never that of sudo or of a shell. */
  @Override
  public Option<String> getPid() {
    EngineProcess jvm = started == null ? null : started.jvm;
    return Option.apply(jvm == null ? null : Long.toString(jvm.pid));
  }

  /** The engine, from its launch on. */
  StartedEngine started() {
    return started;
  }

  /** Below which process the engine is. */
  OptionalLong root() {
    Process process = getProcess();
    if (process instanceof AgentProcess) {
      return OptionalLong.of(((AgentProcess) process).root.pid);
    }
    return process == null ? OptionalLong.empty() : ProcessTable.pidOf(process);
  }

  /** Whether that process runs: if not, its pid may be another's by now. */
  boolean rootRuns() {
    Process process = getProcess();
    if (process instanceof AgentProcess) {
      return ((AgentProcess) process).rootRuns();
    }
    return process != null && process.isAlive();
  }

  String ticket() {
    return getEngineConnLaunchRequest().ticketId();
  }

  @Override
  public String[] getCommandArgs() {
    String[] arguments = super.getCommandArgs();
    port = ecm.ports.take(arguments, BursarEngineConnLaunch::freePort);
    return arguments;
  }

  private static int freePort(int from) {
    String range = GovernanceCommonConf.ENGINE_CONN_PORT_RANGE().getValue();
    int dash = range.indexOf('-');
    if (dash < 0 || range.equals("-")) {
      return PortUtils.findAvailPort();
    }
    try {
      return PortUtils.findAvailPortByRange(from + range.substring(dash));
    } catch (Exception e) { // Scala's, which declares no IOException
      return 0; // none of the range is free from there on
    }
  }

  @Override
  public String getEngineConnPort() {
    return port == 0 ? super.getEngineConnPort() : Integer.toString(port);
  }

  @Override
  public void launch() {
    started = new StartedEngine(ticket());
    try {
      super.launch();
    } catch (Throwable e) {
      ecm.ports.giveBack(port);
      throw e;
    }
  }

  @Override
  public int processWaitFor() {
    int exit = super.processWaitFor();
    ecm.ports.giveBack(port);
    ecm.started.remove(ECMUtils.getInstanceByPort(getEngineConnPort()), started);
    ended();
    return exit;
  }

  private void ended() {
    if (!livesInYarn()) {
      ecm.ended.ended(ticket(), started.jvm);
    }
  }

  /** Whether the engine runs in a YARN cluster, and the process that is started here only submits it. */
  boolean livesInYarn() {
    return livesInYarn(getEngineConnLaunchRequest().labels());
  }

  static boolean livesInYarn(List<Label<?>> labels) {
    return labels.stream()
        .anyMatch(
            label ->
                LabelKeyConstant.ENGINGE_CONN_RUNTIME_MODE_KEY.equals(label.getLabelKey())
                    && YARN_CLUSTER.equals(label.getStringValue()));
  }

  /** Whether the agent starts the engine. */
  private boolean isAgents() {
    return ecm.settings.launch && !livesInYarn();
  }

  @Override
  public ProcessEngineCommandBuilder newProcessEngineConnCommandBuilder() {
    return isAgents() ? new EngineScript() : super.newProcessEngineConnCommandBuilder();
  }

  @Override
  public ProcessEngineCommandExec newProcessEngineConnCommandExec(String[] command, String workDir) {
    if (!isAgents()) {
      return super.newProcessEngineConnCommandExec(command, workDir);
    }
    return new AgentExec(workDir);
  }

  /** Has the agent run the script that Linkis has written, as the engine's user. */
  private final class AgentExec implements ProcessEngineCommandExec {
    private final String workDir;
    private Process process;

    AgentExec(String workDir) {
      this.workDir = workDir;
    }

    @Override
    public void execute() {
      try {
        AgentAllocation launched =
            ecm.agent.launch(
                ticket(),
                // As "su - USER -c" does it: a login shell.
                Arrays.asList("bash", "-l", getPreparedExecFile()),
                workDir,
                getEngineConnManagerEnv().engineConnLogDirs(),
                getEngineConnLaunchRequest().user(),
                ECMUtils.getInstanceByPort(getEngineConnPort()));
        process =
            new AgentProcess(
                ecm.agent,
                ecm.processes,
                launched,
                () -> started.jvm,
                BursarEngineConnLaunch.this::ended,
                AgentProcess.UNTIL_RELEASED);
      } catch (AgentException e) {
        throw Ecm.refused("ticket " + ticket(), e);
      }
    }

    @Override
    public Process getProcess() {
      return process;
    }
  }
}
