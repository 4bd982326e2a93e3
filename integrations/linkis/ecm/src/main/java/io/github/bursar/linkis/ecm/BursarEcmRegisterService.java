package io.github.bursar.linkis.ecm;

import java.time.Duration;
import org.apache.linkis.ecm.server.service.impl.DefaultECMRegisterService;
import org.apache.linkis.manager.common.protocol.em.RegisterEMRequest;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Registers an ECM that has an agent. One without ends, as Linkis's does if it cannot register. */
public class BursarEcmRegisterService extends DefaultECMRegisterService {
  private static final Logger log = LoggerFactory.getLogger(BursarEcmRegisterService.class);

  /** Both may be started at the same time. */
  private static final Duration PATIENCE = Duration.ofSeconds(30);

  private final Ecm ecm;

  BursarEcmRegisterService(Ecm ecm) {
    this.ecm = ecm;
  }

  @Override
  public void registerECM(RegisterEMRequest request) {
    if (isBlind(ecm.settings, ecm.processes)) {
      log.error(
          "This ECM is not registered: /proc is mounted with hidepid, so it does not see the engines"
              + " of other users: want /proc without hidepid for the ECM's account (gid=), or {}=true",
          EcmSettings.LAUNCH);
      exit();
      return;
    }
    try {
      ecm.agent.ping(PATIENCE);
    } catch (AgentException e) {
      log.error("{}", refusal(ecm.settings, e));
      exit();
      return;
    }
    log.info("engines of this ECM are those of the agent at {}", ecm.settings.socket);
    super.registerECM(request);
  }

  /** Whether it could neither confirm nor end what it starts. */
  static boolean isBlind(EcmSettings settings, ProcessTable processes) {
    return !settings.launch && !processes.seesAll();
  }

  static String refusal(EcmSettings settings, AgentException e) {
    return "This ECM is not registered: no agent of Bursar answers for its host: "
        + e.getMessage()
        + ": "
        + EcmSettings.SOCKET
        + ": \""
        + settings.socket
        + "\": want the socket of the bursar agent on this machine, or "
        + EcmSettings.MODE
        + "=off";
  }

  /** As Linkis's own registration does it. */
  void exit() {
    System.exit(1);
  }
}
