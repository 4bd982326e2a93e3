package io.github.bursar.linkis.ecm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.Arrays;
import org.junit.jupiter.api.Test;

class StartPortsTest {
  private static String[] arguments(int port) {
    return new String[] {"--spring-conf", "server.port=" + port, "--engineconn-conf", "ticketId=t"};
  }

  @Test
  void enginesThatStartAtTheSameTimeGetDifferentPorts() {
    StartPorts ports = new StartPorts();
    String[] first = arguments(17485);
    String[] second = arguments(17485);
    String[] third = arguments(17485);
    assertEquals(17485, ports.take(first, from -> from));
    assertEquals(17486, ports.take(second, from -> from));
    assertEquals(17487, ports.take(third, from -> from));
    assertEquals("[--spring-conf, server.port=17487, --engineconn-conf, ticketId=t]", Arrays.toString(third));
    ports.giveBack(17486);
    assertEquals(17486, ports.take(arguments(17485), from -> from));
  }

  @Test
  void whereNoPortIsFreeThatIsSaid() {
    StartPorts ports = new StartPorts();
    ports.take(arguments(17485), from -> from);
    assertThrows(IllegalStateException.class, () -> ports.take(arguments(17485), from -> 17485));
    assertThrows(IllegalStateException.class, () -> ports.take(new String[] {"--spring-conf"}, from -> from));
  }
}
