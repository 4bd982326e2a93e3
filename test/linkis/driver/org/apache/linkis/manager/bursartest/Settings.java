package org.apache.linkis.manager.bursartest;

import java.util.Collections;
import java.util.HashMap;
import java.util.Map;
import org.apache.linkis.governance.common.protocol.conf.ConfigProtocol;
import org.apache.linkis.governance.common.protocol.conf.ResponseQueryConfig;
import org.apache.linkis.rpc.RPCMessageEvent;
import org.apache.linkis.rpc.Receiver;
import org.apache.linkis.rpc.ReceiverChooser;
import org.apache.linkis.rpc.Sender;
import org.springframework.boot.autoconfigure.condition.ConditionalOnProperty;
import org.springframework.stereotype.Component;
import scala.Option;
import scala.concurrent.duration.Duration;

/**
 * Answers for the public service where none runs: no user has settings of their own, except for the
 * bounds of a user that the property bursartest.instances sets for all of them. It is switched off by
 * bursartest.settings=false, where a public service runs.
 */
@Component
@ConditionalOnProperty(name = "bursartest.settings", matchIfMissing = true)
public class Settings implements ReceiverChooser {
  @Override
  public Map<String, Receiver> getReceivers() {
    return Collections.emptyMap();
  }

  @Override
  public Option<Receiver> chooseReceiver(RPCMessageEvent event) {
    return event.message() instanceof ConfigProtocol ? Option.<Receiver>apply(new Answer()) : Option.<Receiver>empty();
  }

  private static final class Answer implements Receiver {
    @Override
    public void receive(Object message, Sender sender) {}

    @Override
    public Object receiveAndReply(Object message, Duration duration, Sender sender) {
      return receiveAndReply(message, sender);
    }

    @Override
    public Object receiveAndReply(Object message, Sender sender) {
      HashMap<String, String> values = new HashMap<>();
      String most = System.getProperty("bursartest.instances");
      if (most != null) {
        values.put("wds.linkis.rm.instance", most);
        values.put("wds.linkis.rm.client.core.max", most);
        values.put("wds.linkis.rm.client.memory.max", most + "g");
      }
      ResponseQueryConfig answer = new ResponseQueryConfig();
      answer.setKeyAndValue(values);
      return answer;
    }
  }
}
