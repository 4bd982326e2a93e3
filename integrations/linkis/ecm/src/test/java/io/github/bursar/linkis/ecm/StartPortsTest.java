package io.github.bursar.linkis.ecm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.Arrays;
import java.util.function.IntUnaryOperator;
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
  }

  /** The ports of a range that nobody listens at. */
  private static IntUnaryOperator range(int end) {
    return from -> from < end ? from : 0;
  }

  @Test
  void aPortIsUsedAgainIfThereIsNoOther() {
    StartPorts ports = new StartPorts();
    for (int port = 17485; port < 17488; port++) {
      assertEquals(port, ports.take(arguments(17485), range(17489)));
    }
    ports.giveBack(17487);
    ports.giveBack(17486);
    ports.giveBack(17486);
    assertEquals(17488, ports.take(arguments(17485), range(17489)));
    assertEquals(17487, ports.take(arguments(17485), range(17489)));
    assertEquals(17486, ports.take(arguments(17485), range(17489)));
    assertThrows(IllegalStateException.class, () -> ports.take(arguments(17485), range(17489)));
  }

  @Test
  void aPortAtWhichSomebodyListensIsNotUsedAgain() {
    StartPorts ports = new StartPorts();
    ports.take(arguments(17485), range(17487));
    ports.take(arguments(17485), range(17487));
    ports.giveBack(17485);
    ports.giveBack(17486);
    assertEquals(17486, ports.take(arguments(17486), from -> from <= 17486 ? 17486 : 0));
  }

  @Test
  void whereNoPortIsFreeThatIsSaid() {
    StartPorts ports = new StartPorts();
    ports.take(arguments(17485), from -> from);
    assertThrows(IllegalStateException.class, () -> ports.take(arguments(17485), from -> 17485));
    assertThrows(IllegalStateException.class, () -> ports.take(new String[] {"--spring-conf"}, from -> from));
  }

  @Test
  void aPortIsNotUsedAgainAsLongAsTheRangeHasOthers() {
    StartPorts ports = new StartPorts();
    for (int i = 0; i < 20_000; i++) {
      assertEquals(20_000 + i, ports.take(arguments(20_000), range(40_000)));
      ports.giveBack(20_000 + i);
    }
    assertEquals(20_000, ports.take(arguments(20_000), range(40_000)));
  }
}
