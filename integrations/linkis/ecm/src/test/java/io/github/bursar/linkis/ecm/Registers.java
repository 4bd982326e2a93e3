package io.github.bursar.linkis.ecm;

import java.time.Duration;

/** What an ECM does before it registers, in a process of its own. Its argument is the agent's socket. */
final class Registers {
  private Registers() {}

  public static void main(String[] arguments) {
    EcmSettings settings = new EcmSettings(java.util.Collections.singletonMap(EcmSettings.SOCKET, arguments[0]));
    try (Agent agent = new Agent(settings.socket)) {
      BursarEcmRegisterService.check(agent, Duration.ofSeconds(10));
    } catch (AgentException e) {
      System.out.println(BursarEcmRegisterService.refusal(settings, e));
      System.exit(1);
    }
  }
}
